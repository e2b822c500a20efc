// Attention with a kernel instead of the softmax, within the rows of a batch:
//
//   out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / (Σ_j φ(q_i)·φ(k_j) + ε)          for each row and head
//
// Time and memory are linear in the row's length, because the sums over j are taken first:
//   S = Σ_j φ(k_j) v_jᵀ  [M, P],   z = Σ_j φ(k_j)  [M],   out_i = Sᵀ φ(q_i) / (z·φ(q_i) + ε)
// With `causal`, j ≤ i: S and z run along the row in chunks, and a chunk attends to itself explicitly.
//
//   elu      φ(x) = elu(x) + 1, ε = 1e-6                               M = P
//   relu     φ(x) = relu(x) + 1e-3, ε = 0                              M = P
//   softmax  φ(x)_m = exp(ω_m·c x − ‖c x‖²/2), c = P^(−1/4), ε = 0     M rows ω of `projection`
//
// φ(q)·φ(k) of the last has the mean exp(q·k/√P) over normal ω ("Rethinking Attention with Performers"). It
// is computed in logarithms: the largest exponent of every feature over the keys is taken out of φ(k) and put
// into φ(q), whose own largest is then taken out. Both cancel in the quotient, so they are constants to the
// gradient, and the denominator is at least 1 whatever the numbers.
//
// The layout is that of `attention`: q, k, v as one tensor [T, 3, H, P]. On the CPU one pass over the keys
// and one over the queries of each head; features are never kept, the backward pass computes them again. On
// CUDA kernels of the same kind where the input is bf16 (linear_attention_gpu.h); else, and causal, tensor
// operations on a grid of rows, at least in fp32.
#pragma once
#include <torch/types.h>

#include "batch/batch.h"

namespace lra {

enum class FeatureMap : int { kElu, kRelu, kSoftmax };

struct LinearAttentionInput {
  torch::Tensor qkv;  // [T, 3, H, P]
  Rows rows;
  FeatureMap map = FeatureMap::kElu;
  torch::Tensor projection = {};  // [M, P] for softmax; a constant
  bool causal = false;
};

torch::Tensor linear_attention(const LinearAttentionInput& input);  // [T, H, P]
// By tensor operations on a grid: what CUDA runs where it has no kernel (kernels/portable.h).
torch::Tensor linear_attention_grid(const LinearAttentionInput& input);
// The definition for one row, with the whole n×n matrix, in the type of its input.
struct LinearAttentionRow {
  torch::Tensor q, k, v;  // [H, n, P]
  FeatureMap map = FeatureMap::kElu;
  torch::Tensor projection = {};
  bool causal = false;
};
torch::Tensor linear_attention_reference(const LinearAttentionRow& row);  // [H, n, P]

// The first query of each row alone, not causal: all that the last block of a model with CLS pooling needs.
struct FirstLinearAttentionInput {
  torch::Tensor q;   // [B, H, P]
  torch::Tensor kv;  // [T, 2, H, P]
  Rows rows;
  FeatureMap map = FeatureMap::kElu;
  torch::Tensor projection = {};
};
torch::Tensor linear_attention_first(const FirstLinearAttentionInput& input);  // [B, H, P]
torch::Tensor linear_attention_first_grid(const FirstLinearAttentionInput& input);

}  // namespace lra
