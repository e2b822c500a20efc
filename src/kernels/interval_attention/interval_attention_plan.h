// What both forms of interval_attention share.
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

}  // namespace lra
