#!/usr/bin/env python3
"""Longformer ("Longformer: The Long-Document Transformer"): a window of 512, in chunks of 256 that see three chunks; CLS
is global, with projections of its own. Options: peer.py."""

import torch
from peer import F, Mixer, blocks_of, main, nn

WINDOW = 512
CHUNK = WINDOW // 2


class WindowAttention(Mixer):
    def __init__(self, o):
        super().__init__(o)
        self.global_qkv = nn.Linear(o.width, 3 * o.width, bias=False) if self.cls else None

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = self.window(q, k, v)
        if self.cls:
            q, k, v = self.global_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            first = F.scaled_dot_product_attention(q[:, :, :1], k, v, dropout_p=self.dropout_p())
            mixed = torch.cat((first, mixed[:, :, 1:]), dim=2)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def window(self, q, k, v):
        n = q.size(2)
        q = blocks_of(q, CHUNK)  # [B, H, c, 256, P]
        chunks = q.size(2)

        def three(x):  # keys of the chunk before, of itself and of the one after: [B, H, c, 768, P]
            x = F.pad(blocks_of(x, CHUNK), (0, 0, 0, 0, 1, 1))
            return torch.cat((x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]), dim=3)

        i = torch.arange(chunks * CHUNK, device=q.device).view(chunks, CHUNK, 1)
        j = torch.arange(-CHUNK, 2 * CHUNK, device=q.device) + CHUNK * torch.arange(chunks, device=q.device)[:, None, None]
        seen = (j - i >= -(WINDOW - 1) // 2) & (j - i <= WINDOW // 2) & (j >= 0) & (j < n)
        keys, values = three(k), three(v)
        if self.cls:  # every query also sees CLS, once
            keys, values = (
                torch.cat((x[:, :, None, :1].expand(-1, -1, chunks, -1, -1), y), dim=3)
                for x, y in ((k, keys), (v, values))
            )
            seen = torch.cat((torch.ones_like(seen[..., :1]), seen & (j > 0)), dim=-1)
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen, dropout_p=self.dropout_p())
        return out.flatten(2, 3)[:, :, :n]


if __name__ == "__main__":
    main("longformer", WindowAttention)
