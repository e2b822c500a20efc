#!/usr/bin/env python3
"""Times the Sparse Transformer of the arena in PyTorch: own block and gathered summaries in one softmax. See transformer.py."""

import torch
import torch.nn.functional as F

import transformer
from blocks import cut, heads, joined, merged

BLOCK, SUMMARY = 50, 10


class Block(transformer.Block):
    def __init__(self, o):
        super().__init__(o)
        self.has_cls = o.pool == "cls"

    def attention(self, x):
        lead = int(self.has_cls)
        q, k, v = heads(self.qkv(x), 3, self.heads)
        n = x.shape[1] - lead
        p = self.attention_dropout if self.training else 0.0
        place = torch.arange(n, device=x.device)
        summary = place[(place % BLOCK == 0) | (place % BLOCK >= BLOCK - SUMMARY)]  # [S]
        blocks_q, blocks_k, blocks_v = (cut(t[:, :, lead:], BLOCK) for t in (q, k, v))  # [B, H, G, b, P]
        groups = blocks_q.shape[2]
        extra = torch.cat((torch.zeros(lead, dtype=torch.long, device=x.device), summary + lead))
        scale = q.shape[-1] ** -0.5
        own = blocks_q @ blocks_k.transpose(-1, -2) * scale
        far = blocks_q @ k[:, :, None, extra].transpose(-1, -2) * scale  # [B, H, G, b, S]
        causal = torch.ones(BLOCK, BLOCK, dtype=torch.bool, device=x.device).tril().expand(groups, -1, -1)
        earlier = summary // BLOCK < torch.arange(groups, device=x.device)[:, None]
        seen = F.pad(earlier, (lead, 0), value=True)[:, None].expand(-1, BLOCK, -1)
        scores, mask = torch.cat((own, far), dim=-1), torch.cat((causal, seen), dim=-1)
        weights = F.dropout(torch.softmax(scores.masked_fill(~mask, float("-inf")).float(), dim=-1).to(v.dtype), p)
        y = weights[..., :BLOCK] @ blocks_v + weights[..., BLOCK:] @ v[:, :, None, extra]
        y = joined(y, n)
        if lead:
            y = torch.cat((F.scaled_dot_product_attention(q[:, :, :1], k, v, dropout_p=p), y), dim=2)
        return self.out(merged(y))


if __name__ == "__main__":
    transformer.Block = Block
    transformer.main("sparse")
