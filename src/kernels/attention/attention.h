// Scaled dot-product attention within the rows of a batch, with dropout on the weights:
//
//   S = q kᵀ / √P,   A = softmax(S),   out = dropout(A) v            for each row and head
//
// over all keys of the row, or, in the causal form, over those up to the query.
//
// q, k and v come as one tensor [T, 3, H, P], as the stacked projection gives it, so that nothing is moved
// between the two; the output [T, H, P] is what the next projection takes. What stands at positions outside
// the rows is of no meaning to anyone, but finite (zero on the CPU). On the CPU one pass over blocks of
// queries that fit the second-level cache, nothing of size L×L is kept; the backward pass computes the
// weights again from the stored log-sum-exp (as in "FlashAttention"). On CUDA the libraries' kernels serve,
// chosen by measurement (docs/performance.md).
#pragma once
#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"

namespace lra {

struct AttentionInput {
  Tensor qkv;  // [T, 3, H, P]
  Rows rows;
  Dropout dropout;      // on the weights
  bool causal = false;  // a query sees no later key
  // Bool [T], not for the fused form: keys that are false are seen by none, and queries that are see all keys
  // alike, whatever these are (where the arena's code adds −10¹⁰ to all scores of a query, they drown in it).
  Tensor valid = {};
};

Tensor attention(const AttentionInput& input);  // [T, H, P]

// The same by tensor operations, with the L×L weights in memory: a baseline for benchmarks.
Tensor attention_unfused(const AttentionInput& input);

// The definition, row by row with the whole L×L matrix, in the dtype of its input.
Tensor attention_reference(const AttentionInput& input);

// The same for the first query of each row alone: all that the last block of a model with CLS pooling needs.
struct FirstAttentionInput {
  Tensor q;   // [B, H, P]
  Tensor kv;  // [T, 2, H, P]
  Rows rows;
  Dropout dropout;
};
Tensor attention_first(const FirstAttentionInput& input);  // [B, H, P]
Tensor attention_first_reference(const FirstAttentionInput& input);

// What `attention` runs for such input on this machine, and why.
std::string attention_implementation(const torch::Device& device, torch::Dtype type, bool full,
                                     double dropout);

}  // namespace lra
