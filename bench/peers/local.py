#!/usr/bin/env python3
"""Local attention: blocks of 50 positions, full attention inside a block. Options: peer.py."""

import torch
from peer import F, Mixer, blocks_of, main

BLOCK = 50


class LocalAttention(Mixer):
    def mix(self, q, k, v):
        n = q.size(2)
        real = (torch.arange(n + -n % BLOCK, device=q.device) < n).view(-1, 1, BLOCK)  # of keys, [g, 1, b]
        out = F.scaled_dot_product_attention(
            *(blocks_of(x, BLOCK) for x in (q, k, v)), attn_mask=real, dropout_p=self.dropout_p()
        )
        return out.flatten(2, 3)[:, :, :n]


if __name__ == "__main__":
    main("local", LocalAttention)
