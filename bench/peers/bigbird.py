#!/usr/bin/env python3
"""BigBird ("Big Bird: Transformers for Longer Sequences"): blocks of 64; the first and the last are global, the others see
these, themselves, both neighbours and 3 random blocks, of each head's own choice. Options: peer.py."""

import random

import torch
from peer import F, Mixer, blocks_of, main

BLOCK = 64
RANDOM = 3


class BlockSparseAttention(Mixer):
    def __init__(self, o):
        super().__init__(o)
        g = -(-self.positions // BLOCK)
        generator = random.Random(0)
        rows = []
        for _ in range(self.heads):
            for i in range(1, g - 1):
                near = [0, i - 1, i, i + 1, g - 1]
                free = [j for j in range(1, g - 1) if abs(i - j) > 1]
                near += generator.sample(free, min(RANDOM, len(free)))
                near = sorted(set(near))
                rows.append(near + [-1] * (5 + RANDOM - len(near)))
        index = torch.tensor(rows, dtype=torch.long).view(self.heads, max(g - 2, 0), 5 + RANDOM)
        self.register_buffer("index", index)

    def mix(self, q, k, v):
        n = q.size(2)
        qb, kb, vb = (blocks_of(x, BLOCK) for x in (q, k, v))  # [B, H, g, b, P]
        g = qb.size(2)
        if g < 3:
            return F.scaled_dot_product_attention(q, k, v)
        head = torch.arange(self.heads, device=q.device)[:, None, None]
        keys, values = (x[:, head, self.index].flatten(3, 4) for x in (kb, vb))  # [B, H, g - 2, 8 b, P]
        position = self.index[..., None] * BLOCK + torch.arange(BLOCK, device=q.device)
        seen = ((position >= 0) & (position < n)).flatten(2).unsqueeze(2)  # [H, g - 2, 1, 8 b]
        middle = F.scaled_dot_product_attention(qb[:, :, 1:-1], keys, values, attn_mask=seen)
        ends = torch.cat((qb[:, :, 0], qb[:, :, -1]), dim=2)
        ends = F.scaled_dot_product_attention(ends, k, v)
        out = torch.cat((ends[:, :, :BLOCK], middle.flatten(2, 3), ends[:, :, BLOCK:]), dim=2)
        return out[:, :, :n]


if __name__ == "__main__":
    main("bigbird", BlockSparseAttention)
