// Attention of queries to keys that need not be their own positions, of any width, with a learned bias:
//
//   S = scale · q kᵀ (+ table),   A = softmax(S),   out = dropout(A) v            for each row and head
//
// Row b of the queries sees row b of the keys; in the causal form query i sees keys 0 … i, and both are the
// same rows. As in `attention`, on the CPU nothing of size L×L is kept: blocks of queries, weights computed
// again in the backward pass from the stored log-sum-exp. On CUDA the library's fused attention on a grid of
// rows; it draws dropout from the device generator, and with a table it holds [B, H, L, L].
#pragma once
#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"

namespace lra {

struct CrossAttentionInput {
  Tensor q;            // [Tq, H, W]; any strides but the last
  Tensor k;            // [Tk, H, W]
  Tensor v;            // [Tk, H, P]
  Rows queries, keys;  // as many rows
  double scale = 1;
  Tensor table = {};  // [H, n, n], n at least the longest row; element (i, j) is added to score (i, j)
  bool causal = false;
  Dropout dropout = {};  // on the weights; by the slots of the queries
};

Tensor cross_attention(const CrossAttentionInput& input);  // [Tq, H, P]
// By tensor operations on a grid: what CUDA runs (kernels/portable.h). On the CPU without dropout.
Tensor cross_attention_grid(const CrossAttentionInput& input);
// The definition for one row, with the whole matrix, in the type of its input.
struct CrossAttentionRow {
  Tensor q, k, v;  // [H, n, W], [H, m, W], [H, m, P]
  double scale = 1;
  Tensor table = {};  // [H, n, m]
  bool causal = false;
  Dropout dropout = {};
  int64_t number = 0;  // of the row in the whole batch: what dropout draws by
};
Tensor cross_attention_reference(const CrossAttentionRow& row);  // [H, n, P]

}  // namespace lra
