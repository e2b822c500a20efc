#!/usr/bin/env python3
"""Times Reformer's attention in PyTorch: two rounds of hashing, sorted chunks of 64. See transformer.py."""

import torch
import torch.nn.functional as F
from torch import nn

import transformer
from blocks import heads, merged

CHUNK, ROUNDS = 64, 2


class Block(transformer.Block):
    def __init__(self, o):
        super().__init__(o)
        self.qkv = nn.Linear(o.width, 2 * o.width, bias=False)

    def one_round(self, q, k, v):
        """Output and log-sum-exp of one hash; q, k, v [B, H, n, P] with n a multiple of the chunk."""
        n, width = q.shape[2:]
        projected = q.detach() @ torch.randn(width, n // CHUNK, device=q.device, dtype=q.dtype)
        bucket = torch.cat((projected, -projected), dim=-1).argmax(-1)  # [B, H, n]
        bucket[..., self.length:] = 2 * n  # padding sorts last
        order = (bucket * n + torch.arange(n, device=q.device)).argsort(-1)
        back = order.argsort(-1)

        def chunks(t):
            return t.gather(2, order[..., None].expand_as(t)).unflatten(2, (-1, CHUNK))

        def with_previous(t):
            return torch.cat((t.roll(1, dims=2), t), dim=3)

        chunk_q, chunk_k, chunk_v = chunks(q), with_previous(chunks(k)), with_previous(chunks(v))
        place = order.unflatten(2, (-1, CHUNK))  # [B, H, G, c]
        keys = with_previous(place)
        scores = (chunk_q @ chunk_k.transpose(-1, -2)).float() * width**-0.5
        scores = scores.masked_fill(place[..., None] == keys[..., None, :], -1e5)
        scores = scores.masked_fill((keys >= self.length)[..., None, :], float("-inf"))
        lse = torch.logsumexp(scores, dim=-1, keepdim=True)
        y = torch.exp(scores - lse).to(v.dtype) @ chunk_v
        index = back[..., None]
        return y.flatten(2, 3).gather(2, index.expand_as(q)), lse.flatten(2, 3).gather(2, index)

    def attention(self, x):
        self.length = n = x.shape[1]
        q, v = (F.pad(t, (0, 0, 0, -n % CHUNK)) for t in heads(self.qkv(x), 2, self.heads))
        k = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6)
        rounds = [self.one_round(q, k, v) for _ in range(ROUNDS)]
        share = torch.softmax(torch.stack([lse for _, lse in rounds]), dim=0).to(v.dtype)
        y = (torch.stack([y for y, _ in rounds]) * share).sum(0)
        return self.out(merged(y[:, :, :n]))


if __name__ == "__main__":
    transformer.Block = Block
    transformer.main("reformer")
