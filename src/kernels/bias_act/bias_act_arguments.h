// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header. Activations
// are bfloat16, float or double; the bias and its gradient float, or double where activations are.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

enum class Activation {
  kGelu,  // by tanh
  kRelu,
};

struct BiasActForwardArguments {
  const void *x, *bias;  // [T, F], [F]
  void* y;               // [T, F]
  int64_t positions, width;
  Activation activation;
  DropoutDraw draw;
  int element;  // bytes of an activation: 2 bfloat16, 4 float, 8 double
};

struct BiasActBackwardArguments {
  const void *x, *bias, *dy;
  void* dx;
  void* partial;  // [blocks, F], overwritten: sums of d_bias
  int64_t positions, width, blocks;
  Activation activation;
  DropoutDraw draw;
  int element;
};

extern CudaLauncher<BiasActForwardArguments> bias_act_forward_cuda;
extern CudaLauncher<BiasActBackwardArguments> bias_act_backward_cuda;

// How a GPU's threads, 8 columns each, are spread over [T, F].
struct BiasActTiles {
  int64_t columns;  // tiles side by side
  int64_t threads;  // of a block, side by side
  int64_t rows;     // of a block, at a time
};
inline BiasActTiles bias_act_tiles(int64_t width) {
  constexpr int64_t kThreads = 256;
  const int64_t octets = (width + 7) / 8, columns = (octets + kThreads - 1) / kThreads;
  const int64_t threads = (octets + columns - 1) / columns;
  return {columns, threads, kThreads / threads};
}

// Blocks of the backward kernel one below the other: with those side by side as many as an H200 (132
// multiprocessors) holds at a time. A constant and not the device's own number, so that sums are the same
// bits on every device.
inline int64_t bias_act_backward_blocks(int64_t positions, int64_t width) {
  constexpr int64_t kMost = 4 * 132;
  const BiasActTiles tiles = bias_act_tiles(width);
  const int64_t most = kMost > tiles.columns ? kMost / tiles.columns : 1;
  const int64_t blocks = (positions + tiles.rows - 1) / tiles.rows;
  return blocks < most ? blocks : most;
}

}  // namespace lra
