// Attention as tools without a fused kernel compute it: one operation after the other, the L×L weights in
// memory and kept for the backward pass. The baseline that speeds of efficient models were published against.
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/rows/grid.h"

namespace lra {

Tensor attention_unfused(const AttentionInput& in) {
  const int64_t H = in.qkv.size(2), L = in.rows.longest;
  const auto heads = to_grid(in.qkv, in.rows).permute({2, 0, 3, 1, 4}).unbind(0);  // 3 × [B, H, L, P]
  Tensor scores = torch::matmul(heads[0], heads[1].transpose(2, 3)) /
                  std::sqrt(static_cast<double>(in.qkv.size(3)));  // [B, H, L, L]
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (in.valid.defined()) {
    const Tensor valid = to_grid(in.valid, in.rows);  // [B, L]
    scores =
        scores.masked_fill(~valid.view({-1, 1, 1, L}), kNever).masked_fill(~valid.view({-1, 1, L, 1}), 0);
  }
  if (!in.rows.full) {
    scores = scores.masked_fill(~grid_mask(in.rows).view({-1, 1, 1, L}), kNever);
  }
  if (in.causal) {
    scores = scores.masked_fill(torch::ones({L, L}, scores.options().dtype(torch::kBool)).triu(1), kNever);
  }
  Tensor weights = torch::softmax(scores, -1);
  if (in.dropout.active()) {
    const Tensor begins = in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong);
    const Tensor row = in.dropout.slots.index_select(0, begins).bitwise_right_shift(24).view({-1, 1, 1}),
                 head = torch::arange(H, begins.options()).view({-1, 1}),
                 place = torch::arange(L, begins.options());
    weights = dropout_weights(weights, (row * H + head) * (1 << 20) + place, in.dropout);
  }
  return from_grid(torch::matmul(weights, heads[2]).transpose(1, 2), in.rows);
}

}  // namespace lra
