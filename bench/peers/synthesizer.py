#!/usr/bin/env python3
"""Synthesizer ("Synthesizer: Rethinking Self-Attention for Transformer Models"), factorised random + dot product:
softmax(q k^T / sqrt(P) + R1 R2) v with factors of width 32. Options: peer.py."""

import torch
from peer import F, Mixer, main, math, nn

WIDTH = 32


class SynthesizedAttention(Mixer):
    def __init__(self, o):
        super().__init__(o)
        self.r1 = nn.Parameter(torch.empty(self.heads, self.positions, WIDTH))
        self.r2 = nn.Parameter(torch.empty(self.heads, WIDTH, self.positions))
        bound = math.sqrt(6 / (self.heads * (self.positions + WIDTH)))
        for factor in (self.r1, self.r2):
            nn.init.uniform_(factor, -bound, bound)

    def mix(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_width**-0.5 + self.r1 @ self.r2
        return F.dropout(scores.softmax(-1), self.dropout_rate, self.training) @ v


if __name__ == "__main__":
    main("synthesizer", SynthesizedAttention)
