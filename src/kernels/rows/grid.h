// Rows as a grid, for operations that a library offers only there:
//
//   to_grid:    [T, …] → [B, L, …]    row b, place l;  zero beyond the end of a row;  L = rows.longest
//   from_grid:  [B, L, …] → [T, …]    back;  zero at positions of no row
//   by_place:   [n, …] → [T, …]       row l of a table wherever a position is the l-th of its row
//
// Each of the first two is the other's transpose, which is its gradient. Full rows are viewed, not copied.
// Only gathers, no scattered additions: the same bits every time. Nothing is read by the host.
#pragma once
#include <torch/types.h>

#include "batch/batch.h"

namespace lra {

torch::Tensor to_grid(const torch::Tensor& x, const Rows& rows);
torch::Tensor from_grid(const torch::Tensor& grid, const Rows& rows);
torch::Tensor by_place(const torch::Tensor& table, const Rows& rows);

// [B, L] bool: which cells of the grid hold a position.
torch::Tensor grid_mask(const Rows& rows);

}  // namespace lra
