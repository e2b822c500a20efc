// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct CrossEntropyArguments {
  const void* logits;     // [B, C]
  const int64_t* labels;  // [B], on the CPU all in 0..C−1
  int64_t B, C;
  void* loss;        // [1], in the type of the logits
  int64_t* correct;  // [1]
  void* gradient;    // [B, C]: scale · (softmax − onehot); null: not wanted
  double scale;
  int element;  // bytes: 4 float, 8 double
};
extern CudaLauncher<CrossEntropyArguments> cross_entropy_cuda;

}  // namespace lra
