#!/usr/bin/env python3
"""The Linear Transformer ("Transformers are RNNs"): phi(x) = elu(x) + 1, sums over keys first. Options: peer.py."""

from peer import F, Mixer, main


class LinearAttention(Mixer):
    def mix(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = k.transpose(-2, -1) @ v  # [B, H, P, P]
        below = q @ k.sum(dim=2).unsqueeze(-1) + 1e-6  # [B, H, n, 1]
        return (q @ sums) / below


if __name__ == "__main__":
    main("linear", LinearAttention)
