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
  // Sums over parts of rows: of u forwards; of d_branch backwards, where null if no d_bias is wanted. CPU:
  // [B, parts, D] with a part for each chunk of the longest row. GPU: see pool_segments.
  void* partial;
  int64_t parts;
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

// Positions summed into one partial sum on the CPU: fixed, so that a sum does not depend on the number of
// threads.
inline constexpr int64_t kPoolChunk = 128;

// On a GPU each block takes a segment of the buffer, whichever rows lie there: all segments are of one size,
// and there are as many as an H200 (132 multiprocessors) holds blocks at a time. Constants and not the
// device's own numbers, so that sums are the same bits on every device. Forwards, where segment s and row b
// meet, their sum is row s + b of `partial` [segments + B, D]: no other two share it, as both go up along the
// buffer. Backwards `partial` is [segments, D].
LRA_HOST_DEVICE constexpr int64_t pool_forward_blocks(int element) { return (element == 2 ? 4 : 2) * 132; }
inline constexpr int64_t kPoolBackwardBlocks = 2 * 132;
LRA_HOST_DEVICE inline int64_t pool_segment_size(int64_t positions, int64_t blocks) {
  return positions > blocks ? (positions + blocks - 1) / blocks : 1;
}
inline int64_t pool_segments(int64_t positions, int64_t blocks) {
  const int64_t size = pool_segment_size(positions, blocks);
  return positions > 0 ? (positions + size - 1) / size : 1;
}

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
