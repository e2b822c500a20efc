// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct CombineRoundsForwardArguments {
  const void *out, *lse;  // [T, R, H, P]; [T, R, H], float, or double where `out` is
  void* y;                // [T, H, P]
  int64_t positions;
  int32_t rounds, heads, width;
  int element;  // bytes of an element of `out`: 2 bfloat16, 4 float, 8 double
};

struct CombineRoundsBackwardArguments {
  const void *out, *lse, *dy;
  void *d_out, *d_lse;
  int64_t positions;
  int32_t rounds, heads, width;
  int element;
};

extern CudaLauncher<CombineRoundsForwardArguments> combine_rounds_forward_cuda;
extern CudaLauncher<CombineRoundsBackwardArguments> combine_rounds_backward_cuda;

}  // namespace lra
