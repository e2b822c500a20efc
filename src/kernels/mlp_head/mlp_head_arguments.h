// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct MlpHeadSizes {
  int64_t B, I, F, C;
  int element;  // bytes: 4 float, 8 double
};

struct MlpHeadForwardArguments {
  MlpHeadSizes sizes;
  const void* x;              // [B, I]
  const void* hidden_weight;  // [F, I]
  const void* hidden_bias;    // [F]
  const void* out_weight;     // [C, F]
  const void* out_bias;       // [C]
  void* hidden;               // [B, F]
  void* logits;               // [B, C]
};

// How the backward pass is cut. A block has kMlpHeadRows rows, `units` hidden units, kMlpHeadColumns columns.
inline constexpr int kMlpHeadRows = 32, kMlpHeadColumns = 64;
// With fewer, forwards and back, blocks are given fewer hidden units each.
inline constexpr int64_t kMlpHeadEnoughBlocks = 100;

struct MlpHeadBackwardPlan {
  int units;        // of a slice
  int64_t slices;   // of F
  int64_t rows;     // that one pair of launches takes: a multiple of kMlpHeadRows, or all
  int64_t scratch;  // elements
};

inline int64_t mlp_head_parts(int64_t size, int64_t of) { return (size + of - 1) / of; }

inline MlpHeadBackwardPlan mlp_head_backward_plan(const MlpHeadSizes& s) {
  constexpr int64_t kMostScratch = 32 << 20;  // bytes
  const int64_t tiles = mlp_head_parts(s.B, kMlpHeadRows), chunks = mlp_head_parts(s.I, kMlpHeadColumns);
  MlpHeadBackwardPlan plan{32, mlp_head_parts(s.F, 32), 0, 0};
  if (tiles * chunks * plan.slices < kMlpHeadEnoughBlocks) plan = {16, mlp_head_parts(s.F, 16), 0, 0};
  const int64_t dx_of_a_tile = plan.slices * kMlpHeadRows * s.I, weights = s.F * (s.I + 1);
  const int64_t most_tiles = kMostScratch / s.element / (dx_of_a_tile + weights);
  const int64_t tiles_at_once = std::min(tiles, std::max<int64_t>(1, most_tiles));
  plan.rows = std::min(s.B, tiles_at_once * kMlpHeadRows);
  plan.scratch = plan.slices * plan.rows * s.I + (tiles_at_once > 1 ? tiles_at_once * weights : 0);
  return plan;
}

// Gradients of parameters are added to; null: not wanted.
struct MlpHeadBackwardArguments {
  MlpHeadSizes sizes;
  const void* x;              // [B, I]
  const void* hidden_weight;  // [F, I]
  const void* out_weight;     // [C, F]
  const void* hidden;         // [B, F]
  const void* d_logits;       // [B, C]
  void* dx;                   // [B, I], written; null: not wanted
  void* d_hidden_weight;      // [F, I]
  void* d_hidden_bias;        // [F]
  void* d_out_weight;         // [C, F]
  void* d_out_bias;           // [C]
  void* scratch;              // as many elements as the plan says
};

extern CudaLauncher<MlpHeadForwardArguments> mlp_head_forward_cuda;
extern CudaLauncher<MlpHeadBackwardArguments> mlp_head_backward_cuda;

}  // namespace lra
