// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct SharedKeysForwardArguments {
  const void* qv;  // [T, 2, H, P]
  void* qkv;       // [T, 3, H, P]
  int64_t positions;
  int32_t heads, width;
  bool unit;
  int element;  // bytes: 2 bfloat16, 4 float, 8 double
};

struct SharedKeysBackwardArguments {
  const void *qkv, *d_qkv;  // qkv is not looked at unless `unit`
  void* d_qv;
  int64_t positions;
  int32_t heads, width;
  bool unit;
  int element;
};

inline constexpr double kSharedKeysEpsilon = 1e-6;

extern CudaLauncher<SharedKeysForwardArguments> shared_keys_forward_cuda;
extern CudaLauncher<SharedKeysBackwardArguments> shared_keys_backward_cuda;

}  // namespace lra
