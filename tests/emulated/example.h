// Small kernels that the emulator itself is tested with (example.cu, emulator_test.cpp).
#pragma once
#include "base/cuda_launch.h"

namespace lra {

// c = a · b, of 16×16 and 16×8 elements, through shared memory.
struct ExampleProduct {
  const void *a, *b;  // bfloat16
  float* c;
  bool transposed;  // b is given as 8×16
  bool waits;       // for the copies into shared memory
};
extern CudaLauncher<ExampleProduct> example_product;

// out[i] = in[n − 1 − i] for each of `blocks` blocks of n threads, through shared memory.
struct ExampleReverse {
  const int* in;
  int* out;
  int blocks, threads;
  bool barrier;
};
extern CudaLauncher<ExampleReverse> example_reverse;

// What lane i is given by each of a warp's functions of i: [lanes, 6].
struct ExampleWarp {
  int* out;
  int threads;
};
extern CudaLauncher<ExampleWarp> example_warp;

enum class Mistake { kHalfAtTheBarrier, kTwoBarriers, kLaneThatEnded, kTrap, kLargeBlock, kHiddenTile };
struct ExampleMistake {
  Mistake mistake;
};
extern CudaLauncher<ExampleMistake> example_mistake;

}  // namespace lra
