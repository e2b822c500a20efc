// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

inline constexpr int64_t kAttentionWidest = 64;  // of heads; multiples of 8
inline constexpr int64_t kAttentionTile = 64;    // queries or keys, of a row and head

struct AttentionData {
  const void* qkv;         // [T, 3, H, P]
  const int32_t* offsets;  // [rows + 1]: every position is one of a row
  int64_t positions, rows;
  int32_t heads, width;
  float scale;
  bool causal;
  DropoutDraw draw;
};

struct AttentionForwardArguments {
  AttentionData data;
  void* out;   // [T, H, P]
  float* lse;  // [H, T], to base 2
};
struct AttentionBackwardArguments {
  AttentionData data;
  const void *out, *d_out;
  const float* lse;
  float* delta;       // [H, T], scratch
  float* query_sums;  // zeros, attention_query_sums floats; null: two runs give the same bits
  void* d_qkv;
};
// Tiles of queries of every row and head, in floats; heads are rounded up to a multiple of 16.
inline int64_t attention_query_sums(const AttentionData& d) {
  return (d.positions / kAttentionTile + d.rows) * kAttentionTile * d.heads * ((d.width + 15) / 16 * 16);
}
extern CudaLauncher<AttentionForwardArguments> attention_forward_cuda;
extern CudaLauncher<AttentionBackwardArguments> attention_backward_cuda;
extern bool (*attention_kernels_run_here)();  // whether the current device has the instructions

}  // namespace lra
