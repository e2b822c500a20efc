#!/usr/bin/env python3
"""The Performer ("Rethinking Attention with Performers"): softmax kernel, 256 orthogonal random features that are drawn
again every 1000 steps. Options: peer.py."""

import torch
from peer import Mixer, main

FEATURES = 256
REDRAW = 1000


def orthogonal(count, width, device):
    blocks = [torch.linalg.qr(torch.randn(width, width, device=device))[0].T for _ in range(-(-count // width))]
    lengths = torch.randn(count, width, device=device).norm(dim=1, keepdim=True)
    return torch.cat(blocks)[:count] * lengths


class Favor(Mixer):
    def __init__(self, o):
        super().__init__(o)
        self.register_buffer("omega", orthogonal(FEATURES, self.head_width, "cpu"))
        self.steps = 0

    def before_step(self):
        self.steps += 1
        if self.steps % REDRAW == 0:
            self.omega.copy_(orthogonal(FEATURES, self.head_width, self.omega.device))

    def features(self, x, dims):
        x = x * self.head_width**-0.25
        products = x @ self.omega.T.to(x.dtype)  # [B, H, n, M]
        norms = x.square().sum(-1, keepdim=True) / 2
        return FEATURES**-0.5 * ((products - norms - products.amax(dims, keepdim=True).detach()).exp() + 1e-6)

    def mix(self, q, k, v):
        q, k = self.features(q, (-1,)), self.features(k, (-1, -2))
        return (q @ (k.transpose(-2, -1) @ v)) / (q @ k.sum(dim=2).unsqueeze(-1))


if __name__ == "__main__":
    main("performer", Favor)
