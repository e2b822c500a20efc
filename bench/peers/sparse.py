#!/usr/bin/env python3
"""The Sparse Transformer ("Generating Long Sequences with Sparse Transformers"), fixed pattern as in the arena: blocks of
50, causal; a token sees its block and of every earlier block the first and the last 10; CLS sees all and is seen by
all. Options: peer.py."""

import torch
from peer import F, Mixer, blocks_of, main

BLOCK = 50
SUMMARY = [0, *range(40, 50)]


class FixedPatternAttention(Mixer):
    def mix(self, q, k, v):
        lead = int(self.cls)
        tokens = self.tokens(q[:, :, lead:], k, v, lead)
        if not lead:
            return tokens
        first = F.scaled_dot_product_attention(q[:, :, :1], k, v, dropout_p=self.dropout_p())
        return torch.cat((first, tokens), dim=2)

    def tokens(self, q, k, v, lead):
        n = q.size(2)
        qb, kb, vb = (blocks_of(x, BLOCK) for x in (q, k[:, :, lead:], v[:, :, lead:]))  # [B, H, g, b, P]
        g = qb.size(2)
        ks, vs = (x[:, :, :, SUMMARY].flatten(2, 3) for x in (kb, vb))  # [B, H, 11 g, P]
        ks, vs = (torch.cat((x[:, :, :lead], s), dim=2) for x, s in ((k, ks), (v, vs)))  # CLS before them
        scale = self.head_width**-0.5
        own = qb @ kb.transpose(-2, -1) * scale  # [B, H, g, b, b]
        own = own.masked_fill(torch.ones(BLOCK, BLOCK, dtype=torch.bool, device=q.device).triu(1), float("-inf"))
        far = qb.flatten(2, 3) @ ks.transpose(-2, -1) * scale  # [B, H, g b, lead + 11 g]
        block_of_key = torch.arange(g, device=q.device).repeat_interleave(len(SUMMARY))
        later = block_of_key >= torch.arange(g, device=q.device).repeat_interleave(BLOCK)[:, None]
        far = far.masked_fill(F.pad(later, (lead, 0)), float("-inf")).unflatten(2, (g, BLOCK))
        weights = F.dropout(torch.cat((own, far), dim=-1).softmax(-1), self.dropout_rate, self.training)
        near, rest = weights.split((BLOCK, far.size(-1)), dim=-1)
        out = near @ vb + (rest.flatten(2, 3) @ vs).unflatten(2, (g, BLOCK))
        return out.flatten(2, 3)[:, :, :n]


if __name__ == "__main__":
    main("sparse", FixedPatternAttention)
