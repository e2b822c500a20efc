// cuDNN's attention in bf16, called by its own interface: LibTorch's functions give three gradients that
// would have to be brought together, and know neither the stacked projection packed nor cuDNN's
// deterministic backward pass.
#pragma once
#include <cstdint>
#include <string>

#include "base/cuda_launch.h"
#include "base/philox.h"

namespace lra {

// Rows of up to `longest` positions. Packed: row b begins at position offsets[b]; else all have `longest`.
struct CudnnAttentionArguments {
  int64_t rows, longest, heads, width;
  const int32_t* offsets;  // [rows + 1]; null: full rows
  double scale, dropout;
  bool causal, deterministic;
  const int32_t* numbers;  // as AttentionNumbers has them
  const int64_t* draw;

  const void* qkv;    // [T, 3, H, P]
  const void* out;    // [T, H, P], written by the forward pass
  const float* lse;   // [T, H] packed, [B, H, L] full; written by the forward pass
  const void* d_out;  // null: the forward pass
  const void* d_qkv;  // as qkv, written by the backward pass
};
extern CudaLauncher<CudnnAttentionArguments> attention_cudnn_cuda;
// Why this device cannot do it, empty if it can; of pointers only matters which are null.
extern std::string (*attention_cudnn_refusal)(const CudnnAttentionArguments&);

// What cuDNN reads of device memory, each on a boundary of 16 bytes: where each row begins in elements of
// qkv, of out and of lse, and its length; seed and offset of dropout, of this use in this step.
LRA_HOST_DEVICE inline int64_t attention_numbers_pitch(int64_t rows) { return (rows + 4) / 4 * 4; }
struct AttentionNumbers {
  int64_t rows, heads, width;
  const int32_t* offsets;  // [rows + 1]; null: full rows
  int32_t* numbers;        // [4, pitch]
  uint64_t seed, site;
  const int64_t* step;  // [1]
  int64_t* draw;        // [4], of which the first and third are used; null: no dropout
};
extern CudaLauncher<AttentionNumbers> attention_numbers_cuda;

}  // namespace lra
