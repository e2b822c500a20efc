#!/usr/bin/env python3
"""Times Longformer in PyTorch: chunks of 256 over three chunks under the exact mask, CLS global. See transformer.py."""

import torch
import torch.nn.functional as F
from torch import nn

import transformer
from blocks import cut, heads, inside, joined, merged

WINDOW, CHUNK = 512, 256


class Block(transformer.Block):
    def __init__(self, o):
        super().__init__(o)
        self.has_cls = o.pool == "cls"
        if self.has_cls:
            self.globals = nn.Linear(o.width, 3 * o.width, bias=False)

    def neighbours(self, x):
        """[B, H, G, c, P] -> [B, H, G, 3c, P]: the chunk before, itself, the one after."""
        padded = F.pad(x, (0, 0, 0, 0, 1, 1))
        return torch.cat((padded[:, :, :-2], padded[:, :, 1:-1], padded[:, :, 2:]), dim=3)

    def attention(self, x):
        n = x.shape[1]
        q, k, v = heads(self.qkv(x), 3, self.heads)
        p = self.attention_dropout if self.training else 0.0
        i = torch.arange(CHUNK, device=x.device)[:, None] + CHUNK
        away = torch.arange(3 * CHUNK, device=x.device) - i
        band = (away >= -((WINDOW - 1) // 2)) & (away <= WINDOW // 2)
        there = F.pad(inside(n, CHUNK, x.device), (0, 0, 1, 1))
        keys = torch.cat((there[:-2], there[1:-1], there[2:]), dim=1)  # [G, 3c]
        if self.has_cls:
            keys[0, CHUNK] = keys[1, 0] = False  # CLS comes as a key of its own
        mask = band & keys[:, None]
        wide_k, wide_v = self.neighbours(cut(k, CHUNK)), self.neighbours(cut(v, CHUNK))
        if self.has_cls:
            groups = wide_k.shape[2]
            wide_k = torch.cat((k[:, :, None, :1].expand(-1, -1, groups, -1, -1), wide_k), dim=3)
            wide_v = torch.cat((v[:, :, None, :1].expand(-1, -1, groups, -1, -1), wide_v), dim=3)
            mask = F.pad(mask, (1, 0), value=True)
        y = F.scaled_dot_product_attention(cut(q, CHUNK), wide_k, wide_v, attn_mask=mask, dropout_p=p)
        y = merged(joined(y, n))
        if self.has_cls:
            q, k, v = heads(self.globals(x), 3, self.heads)
            first = merged(F.scaled_dot_product_attention(q[:, :, :1], k, v, dropout_p=p))
            y = torch.cat((first, y[:, 1:]), dim=1)
        return self.out(y)


if __name__ == "__main__":
    transformer.Block = Block
    transformer.main("longformer")
