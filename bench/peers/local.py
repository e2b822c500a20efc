#!/usr/bin/env python3
"""Times local attention in PyTorch: a reshape to blocks of 50 and scaled_dot_product_attention. See transformer.py."""

import torch.nn.functional as F

import transformer
from blocks import cut, heads, inside, joined, merged

BLOCK = 50


class Block(transformer.Block):
    def attention(self, x):
        n = x.shape[1]
        q, k, v = (cut(t, BLOCK) for t in heads(self.qkv(x), 3, self.heads))
        mask = inside(n, BLOCK, x.device)[:, None, :]  # [G, 1, b]
        p = self.attention_dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
        return self.out(merged(joined(y, n)))


if __name__ == "__main__":
    transformer.Block = Block
    transformer.main("local")
