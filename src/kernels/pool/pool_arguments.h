// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

// Parameters, statistics and pooled vectors are float where activations are bfloat16 or float, double where
// they are double.
struct PoolArguments {
  const void* x;       // [T, D]
  const void* branch;  // [T, D] or null
  const void* bias;    // [D] or null
  DropoutDraw draw;
  const int32_t* offsets;  // [B + 1]
  const int32_t* lengths;  // [B]; null: only the first position of a row is pooled
  int64_t T, D, B;
  int64_t parts;     // chunks of the longest row
  void* partial;     // [B, parts, D]: sums over chunks, of u and of d_branch; backward: null if no d_bias is
                     // wanted
  void* statistics;  // [T, 2]: mean and 1 / σ; forward: null if not wanted
  void* mean;        // [B, D]: ū
  const void* weight;
  int element;  // bytes of an activation: 2 bfloat16, 4 float, 8 double
};

struct PoolForwardArguments {
  PoolArguments in;
  const void* offset;
  void* pooled;  // [B, D]
};
extern CudaLauncher<PoolForwardArguments> pool_forward_cuda;

// Parameters' gradients are added to what is there; null where none is wanted.
struct PoolBackwardArguments {
  PoolArguments in;
  const void* d_pooled;                // [B, D]
  void* d_x;                           // [T, D]
  void* d_branch;                      // [T, D]; null where it is d_x
  void *d_bias, *d_weight, *d_offset;  // [D]
};
extern CudaLauncher<PoolBackwardArguments> pool_backward_cuda;

// Positions summed into one partial sum: fixed, so that a sum does not depend on the device.
inline constexpr int64_t kPoolChunk = 128;
inline constexpr int64_t kPoolWidest = 4096;
inline constexpr double kPoolEpsilon = 1e-6;

// The positions of row b that count, and all up to the next row, or to the end of the buffer: the rest is
// zeroed.
struct PoolRow {
  int64_t start, length, span;
};
LRA_HOST_DEVICE inline PoolRow pool_row(const PoolArguments& a, int64_t b) {
  const int64_t start = a.offsets[b], end = b + 1 < a.B ? a.offsets[b + 1] : a.T;
  return {start, a.lengths ? a.lengths[b] : 1, end - start};
}

}  // namespace lra
