// What the kernel is given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct NoiseWords {
  const int64_t* index;  // [count]
  int64_t* words;        // [count], each 32 bits
  int64_t count;
  uint64_t site, seed;
  const int64_t* step;  // [1]
};
extern CudaLauncher<NoiseWords> noise_words_cuda;

}  // namespace lra
