#!/usr/bin/env python3
"""Times the Sinkhorn Transformer in PyTorch: blocks of 64, eight iterations in logarithms. See transformer.py."""

import torch
import torch.nn.functional as F
from torch import nn

import transformer
from blocks import cut, heads, inside, joined, merged

BLOCK, ITERATIONS, TEMPERATURE = 64, 8, 0.75


class Block(transformer.Block):
    def __init__(self, o):
        super().__init__(o)
        self.has_cls = o.pool == "cls"
        self.sort = nn.Linear(o.width // o.heads, (o.length + BLOCK - 1) // BLOCK, bias=False)

    def matrix(self, keys):
        """[B, H, G, b, P] -> [B, H, G, G], doubly stochastic."""
        x = self.sort(keys.sum(3)).float()
        if self.training:
            x = x - torch.log(-torch.log(torch.rand_like(x).clamp(1e-7, 1 - 1e-7)))
        x = x / TEMPERATURE
        for _ in range(ITERATIONS):
            x = x - torch.logsumexp(x, dim=2, keepdim=True)
            x = x - torch.logsumexp(x, dim=3, keepdim=True)
        return x.exp().to(keys.dtype)

    def attention(self, x):
        lead = int(self.has_cls)
        q, k, v = heads(self.qkv(x), 3, self.heads)
        n = x.shape[1] - lead
        p = self.attention_dropout if self.training else 0.0
        blocks_q, blocks_k, blocks_v = (cut(t[:, :, lead:], BLOCK) for t in (q, k, v))
        matrix = self.matrix(blocks_k)
        groups = matrix.shape[2]

        def widened(own, all_of_it):
            mixed = (matrix @ own.flatten(3)).view(own.shape)
            cls = all_of_it[:, :, None, :lead].expand(-1, -1, groups, -1, -1)
            return torch.cat((cls, own, mixed), dim=3)

        mask = F.pad(F.pad(inside(n, BLOCK, x.device), (lead, 0), value=True), (0, BLOCK), value=True)[:, None]
        y = F.scaled_dot_product_attention(
            blocks_q, widened(blocks_k, k), widened(blocks_v, v), attn_mask=mask, dropout_p=p
        )
        y = joined(y, n)
        if lead:
            y = torch.cat((F.scaled_dot_product_attention(q[:, :, :1], k, v, dropout_p=p), y), dim=2)
        return self.out(merged(y))


if __name__ == "__main__":
    transformer.Block = Block
    transformer.main("sinkhorn")
