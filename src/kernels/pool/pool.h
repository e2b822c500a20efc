// The end of an encoder in one pass: last residual, final norm, one vector for each row.
//
//   sum = x + dropout(branch + bias)                                         [T, D]
//   u   = (sum − mean(sum)) / √(var(sum) + 1e-6),   n = weight ∘ u + offset
//   pooled[b] = n at the row's first position (CLS), or the mean of n over its positions    [B, D]
//
// The norm is affine, so the mean is taken of u: pooled[b] = weight ∘ ū[b] + offset with ū[b] = mean of u.
// Only ū and the statistics of each position are kept. Back, with a = weight ∘ d_pooled[b] / length:
//
//   d_sum = (a − mean(a) − u · mean(a ∘ u)) / σ,   d_x = d_sum,   d_branch = dropout(d_sum),   d_bias = Σ
//   d_branch, d_weight = Σ_b d_pooled[b] ∘ ū[b],   d_offset = Σ_b d_pooled[b]
//
// d_x and d_branch are zero at positions that are not pooled.
#pragma once
#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"

namespace lra {

struct PoolInput {
  Tensor x;       // [T, D]
  Tensor branch;  // [T, D]; undefined: none
  Tensor bias;    // [D]; undefined: none
  Dropout dropout;
  Tensor weight, offset;  // [D]
  Rows rows;
  bool cls = false;  // the first position of each row; else the mean
};

Tensor pool(const PoolInput& input);  // [B, D] in the parameters' type

// From the definition, step by step.
Tensor pool_reference(const PoolInput& input);

}  // namespace lra
