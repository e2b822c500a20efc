// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header. Activations
// are bfloat16, float or double; parameters, statistics and sums are float, or double where activations are.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

inline constexpr double kNormEpsilon = 1e-6;
inline constexpr int64_t kNormMaxWidth = 4096;  // of the CUDA kernels

struct AddNormForwardArguments {
  const void *x, *branch;              // [T, D]; branch null: nothing is added
  const void *bias, *weight, *offset;  // [D]; bias may be null
  void *sum, *normed;                  // [T, D]; sum null where there is no branch
  void *mean, *rstd;                   // [T], null where no backward pass will follow
  int64_t positions, width;
  DropoutDraw draw;
  int element;  // bytes of an activation: 2 bfloat16, 4 float, 8 double
};

struct AddNormBackwardArguments {
  const void *sum, *weight, *mean, *rstd;
  const void *d_sum, *d_normed;  // [T, D]; d_sum null: zero
  void *d_x, *d_branch;          // [T, D]; d_branch null: not wanted, or the same as d_x
  void* partial;                 // [blocks, 3, D], overwritten: sums of d_weight, d_offset, d_bias
  int64_t positions, width, blocks;
  DropoutDraw draw;
  int element;
};

extern CudaLauncher<AddNormForwardArguments> add_norm_forward_cuda;
extern CudaLauncher<AddNormBackwardArguments> add_norm_backward_cuda;

// Blocks of the backward kernel on a GPU: as many as an H200 (132 multiprocessors) holds at a time. A
// constant and not the device's own number, so that sums are the same bits on every device.
inline int64_t add_norm_backward_blocks(int64_t positions) {
  constexpr int64_t kMost = 3 * 132, kRows = 8;
  const int64_t blocks = (positions + kRows - 1) / kRows;
  return blocks < kMost ? blocks : kMost;
}

}  // namespace lra
