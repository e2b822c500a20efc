#!/usr/bin/env python3
"""The Sinkhorn Transformer ("Sparse Sinkhorn Attention"): blocks of 64; a block also sees a mixture of all blocks, by
weights that 8 iterations of Sinkhorn's scaling make doubly stochastic. CLS sees all and is seen by all. Options:
peer.py."""

import torch
from peer import F, Mixer, blocks_of, main, nn

BLOCK = 64
ITERATIONS = 8
TEMPERATURE = 0.75


class SinkhornAttention(Mixer):
    def __init__(self, o):
        super().__init__(o)
        self.sort = nn.Linear(self.head_width, -(-o.length // BLOCK), bias=False)

    def permutation(self, kb):
        logits = self.sort(kb.sum(dim=3))  # [B, H, g, g]
        if self.training:
            logits = logits - torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        logits = logits / TEMPERATURE
        for _ in range(ITERATIONS):
            logits = logits - logits.logsumexp(-2, keepdim=True)
            logits = logits - logits.logsumexp(-1, keepdim=True)
        return logits.exp()

    def mix(self, q, k, v):
        lead = int(self.cls)
        n = q.size(2) - lead
        qb, kb, vb = (blocks_of(x[:, :, lead:], BLOCK) for x in (q, k, v))  # [B, H, g, b, P]
        g = qb.size(2)
        p = self.permutation(kb).to(v.dtype)
        mixed_k, mixed_v = ((p @ x.flatten(3)).unflatten(3, (BLOCK, -1)) for x in (kb, vb))
        keys, values = [kb, mixed_k], [vb, mixed_v]
        real = (torch.arange(g * BLOCK, device=q.device) < n).view(g, 1, BLOCK)
        seen = torch.cat((real, torch.ones_like(real)), dim=-1)
        if lead:
            keys.insert(0, k[:, :, None, :1].expand(-1, -1, g, -1, -1))
            values.insert(0, v[:, :, None, :1].expand(-1, -1, g, -1, -1))
            seen = F.pad(seen, (1, 0), value=True)
        out = F.scaled_dot_product_attention(
            qb, torch.cat(keys, dim=3), torch.cat(values, dim=3), attn_mask=seen, dropout_p=self.dropout_p()
        )
        out = out.flatten(2, 3)[:, :, :n]
        if not lead:
            return out
        first = F.scaled_dot_product_attention(q[:, :, :1], k, v, dropout_p=self.dropout_p())
        return torch.cat((first, out), dim=2)


if __name__ == "__main__":
    main("sinkhorn", SinkhornAttention)
