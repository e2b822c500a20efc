// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"
#include "base/philox.h"

namespace lra {

struct SortingMatrixData {
  const void* scores;                             // the next j is the next element
  int64_t row_stride, block_stride, head_stride;  // of scores, in elements
  const int32_t *used, *offsets;                  // [B], [B + 1]
  const int64_t* slots;                           // [T]
  int64_t rows, site, seed;                       // B
  const int64_t* step;                            // null: no noise
  double temperature;
  int32_t heads, blocks, iters;  // H, G
  int element;                   // bytes of a score: 2 bfloat16, 4 float, 8 double
};
// A matrix's place to work in is shared memory where that is enough, else in `work`, each with as many
// numbers (double for double, else float) as this says.
inline constexpr int64_t kSortingShared = 200 * 1024;
inline int64_t sorting_pitch(int64_t blocks) { return blocks | 1; }
inline int64_t sorting_work(const SortingMatrixData& d, bool backward) {
  const int64_t plane = d.blocks * sorting_pitch(d.blocks);
  return backward ? 2 * plane + (2 * int64_t{d.iters} + 3) * d.blocks : plane + 2 * d.blocks;
}

struct SortingMatrixArguments {
  SortingMatrixData data;
  void* work;    // null: shared memory
  void* matrix;  // [B, H, G, G]
};
struct SortingGradientArguments {
  SortingMatrixData data;
  void* work;
  const void* d_matrix;
  void* d_scores;  // [B, G, H, G]
};
extern CudaLauncher<SortingMatrixArguments> sorting_matrix_cuda;
extern CudaLauncher<SortingGradientArguments> sorting_gradient_cuda;

}  // namespace lra
