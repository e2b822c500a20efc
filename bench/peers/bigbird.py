#!/usr/bin/env python3
"""Times BigBird in PyTorch: gathered blocks of 64, the first and the last dense. See transformer.py."""

import torch
import torch.nn.functional as F

import transformer
from blocks import cut, heads, inside, merged

BLOCK, RANDOM = 64, 3


class Block(transformer.Block):
    def __init__(self, o):
        super().__init__(o)
        n = o.length + (o.pool == "cls")
        groups = (n + BLOCK - 1) // BLOCK
        table = torch.full((o.heads, groups, 5 + RANDOM), -1)
        for h in range(o.heads):
            for i in range(1, groups - 1):
                near = sorted({0, i - 1, i, i + 1, groups - 1})
                others = [j for j in range(1, groups - 1) if j not in near]
                chosen = [others[j] for j in torch.randperm(len(others))[:RANDOM]]
                seen = torch.tensor(near + chosen)
                table[h, i, : len(seen)] = seen
        self.register_buffer("table", table)

    def attention(self, x):
        n = x.shape[1]
        q, k, v = heads(self.qkv(x), 3, self.heads)
        blocks_q, blocks_k, blocks_v = (cut(t, BLOCK) for t in (q, k, v))  # [B, H, G, b, P]
        table = self.table[:, 1:-1]  # [H, G - 2, 8]
        at = torch.arange(self.heads, device=x.device)[:, None, None]
        wide_k = blocks_k[:, at, table.clamp(min=0)].flatten(3, 4)  # [B, H, G - 2, 8b, P]
        wide_v = blocks_v[:, at, table.clamp(min=0)].flatten(3, 4)
        there = inside(n, BLOCK, x.device)[table.clamp(min=0)] & (table >= 0)[..., None]
        mask = there.flatten(2)[:, :, None]  # [H, G - 2, 1, 8b]
        middle = F.scaled_dot_product_attention(blocks_q[:, :, 1:-1], wide_k, wide_v, attn_mask=mask).flatten(2, 3)
        last = (n - 1) // BLOCK * BLOCK
        first = F.scaled_dot_product_attention(q[:, :, :BLOCK], k, v)
        end = F.scaled_dot_product_attention(q[:, :, last:], k, v)
        return self.out(merged(torch.cat((first, middle, end), dim=2)))


if __name__ == "__main__":
    transformer.Block = Block
    transformer.main("bigbird")
