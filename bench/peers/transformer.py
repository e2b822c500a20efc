#!/usr/bin/env python3
"""The Transformer ("Attention Is All You Need"): softmax(q k^T / sqrt(P)) v. Options and output: peer.py."""

from peer import F, Mixer, main


class SelfAttention(Mixer):
    def mix(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout_p())


if __name__ == "__main__":
    main("transformer", SelfAttention)
