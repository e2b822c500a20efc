// Scaled dot-product attention with a key mask and dropout on the weights:
//
//   S = q kᵀ / √P           (keys at or beyond the row's length are left out)
//   A = softmax(S),  out = dropout(A) v
//
// q, k and v come as one tensor [B, L, 3, H, P], as the stacked projection of nn gives it, so that nothing is
// moved between the two, forward or backward; the output [B, L, H, P] is what the next projection takes. What
// stands at padded queries is of no meaning to anyone (zero on the CPU). On the CPU one pass over blocks of
// queries that fit the second-level cache, nothing of size L×L is kept; the backward pass computes the
// weights again from the stored log-sum-exp (as in "FlashAttention"). On CUDA the library's fused kernels
// serve.
#pragma once
#include <torch/types.h>

#include "kernels/dropout/dropout.h"

namespace lra {

struct AttentionInput {
  torch::Tensor qkv;      // [B, L, 3, H, P]
  torch::Tensor lengths;  // int32 [B]; undefined: every row is full
  double dropout = 0;     // on the weights
  uint64_t site = 0;      // of the dropout
  DropoutKey key;
};

torch::Tensor attention(const AttentionInput& input);  // [B, L, H, P]

// The definition, with the whole L×L matrix, in the dtype of its input.
torch::Tensor attention_reference(const AttentionInput& input);

// What `attention` runs for such input on this machine, and why.
std::string attention_implementation(const torch::Device& device, torch::Dtype dtype, bool padded,
                                     bool dropout);

}  // namespace lra
