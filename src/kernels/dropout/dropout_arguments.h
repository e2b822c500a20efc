// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

struct DropoutArguments {
  const void* in;
  void* out;
  int64_t positions, width;
  DropoutDraw draw;
  int element;  // bytes: 2 bfloat16, 4 float, 8 double
};
extern CudaLauncher<DropoutArguments> dropout_cuda;

}  // namespace lra
