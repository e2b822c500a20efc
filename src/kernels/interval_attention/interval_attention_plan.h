// What the forms of interval_attention share: the CPU's (fused), the CUDA kernels' (device), and that of
// tensor operations for all else (gathered).
#pragma once
#include "kernels/interval_attention/interval_attention.h"

namespace lra {

inline constexpr double kSelfPenalty = 1e5;

// The input without the tensors that have gradients.
struct IntervalPlan {
  Rows rows;
  std::vector<IntervalBlocks> blocks;
  Dropout dropout;
  double scale;
  Tensor side_at, order, least;
  int64_t side_pitch;
  bool spare_self;
};

struct IntervalGradient {
  Tensor qkv, side;
};

// `side` is undefined where there is none of its own.
IntervalAttentionOutput interval_forward_gathered(const IntervalPlan& plan, const Tensor& qkv,
                                                  const Tensor& side);
IntervalGradient interval_backward_gathered(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                                            const IntervalAttentionOutput& forward, const Tensor& d_out,
                                            const Tensor& d_lse);

IntervalAttentionOutput interval_forward_fused(const IntervalPlan& plan, const Tensor& qkv,
                                               const Tensor& side);
IntervalGradient interval_backward_fused(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                                         const IntervalAttentionOutput& forward, const Tensor& d_out,
                                         const Tensor& d_lse);

// Whether the CUDA kernels compute this: bfloat16, heads of a width that is a multiple of 8, up to 128.
bool interval_kernels_serve(const IntervalPlan& plan, const Tensor& qkv);
IntervalAttentionOutput interval_forward_device(const IntervalPlan& plan, const Tensor& qkv,
                                                const Tensor& side);
IntervalGradient interval_backward_device(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                                          const IntervalAttentionOutput& forward, const Tensor& d_out,
                                          const Tensor& d_lse);

}  // namespace lra
