#!/usr/bin/env python3
"""Linformer ("Linformer: Self-Attention with Linear Complexity"): keys and values projected to 256 by one matrix, shared
by both and by all heads. Options: peer.py."""

import torch
from peer import F, Mixer, main, nn


class ProjectedAttention(Mixer):
    def __init__(self, o):
        super().__init__(o)
        self.e = nn.Parameter(torch.empty(self.positions, min(256, max(1, self.positions // 4))))
        nn.init.xavier_uniform_(self.e)

    def mix(self, q, k, v):
        k, v = self.e.T @ k, self.e.T @ v  # [B, H, 256, P]
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout_p())


if __name__ == "__main__":
    main("linformer", ProjectedAttention)
