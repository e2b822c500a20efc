#!/usr/bin/env python3
"""Reformer ("Reformer: The Efficient Transformer"): shared queries and keys, two rounds of hashing into 2 n / 64 buckets,
sorted chunks of 64 that see themselves and the one before. Options: peer.py."""

import torch
from peer import F, Mixer, main, nn

CHUNK = 64
ROUNDS = 2


class HashedAttention(Mixer):
    def __init__(self, o):
        super().__init__(o)
        self.qkv = nn.Linear(o.width, 2 * o.width, bias=False)
        nn.init.xavier_uniform_(self.qkv.weight)

    def forward(self, x):
        q, v = self.qkv(x).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)  # [B, H, n, P]
        outs, weights = zip(*(self.one_round(q, v) for _ in range(ROUNDS)))
        shares = torch.stack(weights).softmax(0).unsqueeze(-1)  # [R, B, H, n, 1]
        mixed = (torch.stack(outs) * shares).sum(0)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def one_round(self, q, v):
        n, width = q.shape[2:]
        more = -n % CHUNK
        chunks = (n + more) // CHUNK
        rotation = torch.randn(width, chunks, device=q.device, dtype=q.dtype)
        projected = q.detach() @ rotation
        bucket = torch.cat((projected, -projected), dim=-1).argmax(-1)  # [B, H, n]
        place = torch.arange(n, device=q.device)
        order = (bucket * n + place).argsort(-1)  # by bucket, then position
        order = F.pad(order, (0, more), value=n)  # padding last
        at = order.clamp(max=n - 1).unsqueeze(-1).expand(-1, -1, -1, width)
        qs, vs = (x.gather(2, at).unflatten(2, (chunks, CHUNK)) for x in (q, v))  # [B, H, c, 64, P]
        position = order.unflatten(2, (chunks, CHUNK))

        def with_previous(x):
            return torch.cat((x.roll(1, dims=2), x), dim=3)

        keys, values, key_position = with_previous(F.normalize(qs, dim=-1)), with_previous(vs), with_previous(position)
        scores = qs @ keys.transpose(-2, -1) * width**-0.5  # [B, H, c, 64, 128]
        scores = scores.masked_fill((key_position == n).unsqueeze(-2), float("-inf"))
        scores = scores.masked_fill(position.unsqueeze(-1) == key_position.unsqueeze(-2), -1e5)  # itself only if alone
        lse = scores.logsumexp(-1, keepdim=True)
        out = (scores - lse).exp() @ values
        back = order[..., :n].argsort(-1)  # where each position went
        out = out.flatten(2, 3)[:, :, :n].gather(2, back.unsqueeze(-1).expand(-1, -1, -1, width))
        return out, lse.flatten(2)[:, :, :n].gather(2, back)


if __name__ == "__main__":
    main("reformer", HashedAttention)
