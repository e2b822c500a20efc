// What the kernel is given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

inline constexpr int64_t kOrthogonalMaxWidth = 160;  // a block of P×P is held in shared memory

struct OrthogonalFeaturesArguments {
  double* out;  // [M, P]
  int64_t count, width;
  uint64_t site, seed;
  const int64_t* step;   // one number on the device; null: `draw` is it
  int64_t period, draw;  // draw = step / period
};

extern CudaLauncher<OrthogonalFeaturesArguments> orthogonal_features_cuda;

}  // namespace lra
