// The positions of each row, reduced to a fixed number of weighted sums:
//
//   y_b = E[0:n]ᵀ x_b       x_b: [n, W] the n positions of row b, E: [n_max, K], y_b: [K, W]
//
// One matrix product a row; what stands beyond a row's end has no part in it.
#pragma once
#include <torch/types.h>

#include "batch/batch.h"

namespace lra {

// x: [T, W], weight: [n_max, K] in any floating type → [B·K, W] in the type of x.
torch::Tensor project_rows(const torch::Tensor& x, const torch::Tensor& weight, const Rows& rows);
// By tensor operations on a grid: what CUDA runs (kernels/portable.h).
torch::Tensor project_rows_grid(const torch::Tensor& x, const torch::Tensor& weight, const Rows& rows);
// Position by position, from the definition.
torch::Tensor project_rows_reference(const torch::Tensor& x, const torch::Tensor& weight, const Rows& rows);

}  // namespace lra
