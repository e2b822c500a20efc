// Over the four neighbouring lanes that hold a row of a product's sums (kernels/rows/mma.cuh).
#pragma once
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

namespace lra {

inline constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

}  // namespace lra
