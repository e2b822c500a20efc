// The form of tensor operations, for devices without a kernel of ours: keys of some blocks at a time are
// gathered into [B, R·H, g, m, P], so that the memory beside input and output does not grow with the length.
// Sizes are plain numbers; nothing is read back from the device. Softmax is in fp32 or better.
#include <cmath>
#include <limits>

#include "kernels/interval_attention/interval_attention_plan.h"

namespace lra {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 26;  // of a slice

torch::Dtype precise(torch::Dtype type) { return type == torch::kDouble ? torch::kDouble : torch::kFloat; }

// Blocks g0 … g1 − 1 of `blocks`.
class Slice {
 public:
  Slice(const IntervalPlan& plan, const IntervalBlocks& blocks, const Tensor& qkv, const Tensor& side,
        int64_t g0, int64_t g1)
      : plan_(plan),
        T_(qkv.size(0)),
        H_(qkv.size(2)),
        P_(qkv.size(3)),
        R_H_(plan.order.defined() ? plan.order.size(0) : H_),
        options_(plan.rows.offsets.options().dtype(torch::kLong)) {
    heads_ = torch::arange(R_H_, options_).view({1, R_H_, 1, 1});
    const Tensor first = blocks.first.narrow(1, g0, g1 - g0).to(torch::kLong).unsqueeze(1).unsqueeze(3),
                 last = blocks.last.narrow(1, g0, g1 - g0).to(torch::kLong).unsqueeze(1).unsqueeze(3);
    query_place_ = first + torch::arange(blocks.size, options_);  // [B, 1, g, c]
    query_valid_ = query_place_ < last;
    query_place_ = query_place_.clamp(0, T_ - 1);
    query_at = positions(query_place_);
    find_keys(blocks, side, g0, g1);
    // [B, 1 or R·H, g, c, m]
    allowed = allowed.logical_and(query_valid_.unsqueeze(4));
  }

  static int64_t width(const KeySlot& slot, int64_t g1) {
    return slot.growth > 0 ? std::min(slot.width, slot.growth * g1) : slot.width;
  }
  static int64_t columns(const IntervalBlocks& blocks, int64_t g1) {
    int64_t most = 0;
    for (const auto& s : blocks.slots) most = std::max(most, s.column + width(s, g1));
    return most;
  }

  // Rows of [N, P] tensors as [B, R·H, g, …, P].
  static Tensor take(const Tensor& from, const Tensor& index) {
    std::vector<int64_t> shape = index.sizes().vec();
    shape.push_back(from.size(1));
    return from.index_select(0, index.flatten()).view(shape);
  }

  Tensor queries(const Tensor& q) const { return take(q, input_index(query_at)); }
  // Keys or values of all slots; `side` as [B·pitch·H, P].
  Tensor keys(const Tensor& own, const Tensor& side) const {
    std::vector<Tensor> parts;
    for (const auto& p : parts_) parts.push_back(take(p.own ? own : side, p.index));
    return torch::cat(parts, 3);
  }
  void add_to_keys(const Tensor& gradient, Tensor& own, Tensor& side) const {
    int64_t column = 0;
    for (const auto& p : parts_) {
      const int64_t w = p.index.size(3);
      (p.own ? own : side)
          .index_add_(0, p.index.flatten(), gradient.narrow(3, column, w).reshape({-1, P_}).to(own.dtype()));
      column += w;
    }
  }
  // Where outputs of queries stand in [T·R·H + 1, …]: the last for what is no query.
  Tensor output_index() const {
    return torch::where(query_valid_, query_at * R_H_ + heads_, torch::full({}, T_ * R_H_, options_))
        .flatten();
  }
  Tensor input_index(const Tensor& at) const { return (at * H_ + heads_ % H_); }

  // scale · q kᵀ with −∞ where there is no weight.
  Tensor scores(const Tensor& q, const Tensor& k) const {
    Tensor s = torch::matmul(q, k.transpose(3, 4)).to(precise(q.scalar_type())) * plan_.scale;
    if (own_.defined()) s = s - own_ * kSelfPenalty;
    return s.masked_fill(~allowed, -std::numeric_limits<double>::infinity());
  }

  Tensor dropped(const Tensor& weights) const {
    if (!plan_.dropout.active()) return weights;
    const Tensor begins = plan_.rows.offsets.narrow(0, 0, plan_.rows.count).to(torch::kLong);
    const Tensor row =
        plan_.dropout.slots.index_select(0, begins).bitwise_right_shift(24).view({-1, 1, 1, 1});
    const Tensor place = query_place_ - begins.view({-1, 1, 1, 1});
    return dropout_weights(weights, (row * H_ + heads_) * (1 << 20) + place, plan_.dropout);
  }

  Tensor query_at;  // [B, 1 or R·H, g, c] positions
  Tensor allowed;   // [B, 1 or R·H, g, c, m]

 private:
  struct Part {
    Tensor index;  // [B, R·H, g, w] into [·, P] tensors
    bool own;      // of the positions, else of the side keys
  };

  // Places of the list → positions.
  Tensor positions(const Tensor& places) const {
    if (!plan_.order.defined()) return places;
    const Tensor index = heads_ * T_ + places;
    return plan_.order.flatten().index_select(0, index.flatten()).to(torch::kLong).view(index.sizes());
  }

  void find_keys(const IntervalBlocks& blocks, const Tensor& side, int64_t g0, int64_t g1) {
    std::vector<Tensor> seen, own;
    int64_t column = 0;
    for (size_t s = 0; s < blocks.slots.size(); ++s) {
      const KeySlot& slot = blocks.slots[s];
      TORCH_CHECK(slot.column == column, "[interval_attention] the slots leave columns between them");
      const int64_t w = width(slot, g1);
      column += slot.width;
      const auto cut = [&](const Tensor& t) {
        return t.narrow(2, g0, g1 - g0).select(3, static_cast<int64_t>(s)).to(torch::kLong).unsqueeze(3);
      };
      Tensor place = cut(blocks.begin) + torch::arange(w, options_);  // [B, 1 or H, g, w]
      Tensor visible = (place < cut(blocks.end)).unsqueeze(3);        // [B, 1 or H, g, 1, w]
      const int64_t places = slot.side ? plan_.rows.count * plan_.side_pitch : T_;
      place = place.clamp(0, places - 1);
      if (slot.banded) visible = visible.logical_and(in_band(place, blocks));
      seen.push_back(visible);
      if (plan_.spare_self) {
        own.push_back(slot.side ? torch::zeros({1, 1, 1, 1, w}, options_)
                                : (place.unsqueeze(3) == query_place_.unsqueeze(4)).to(torch::kLong));
      }
      parts_.push_back(part(slot, place, side));
    }
    allowed = joined(seen);
    if (plan_.spare_self) own_ = joined(own);
  }

  Tensor in_band(const Tensor& place, const IntervalBlocks& blocks) const {
    const Tensor away = place.unsqueeze(3) - query_place_.unsqueeze(4);
    Tensor inside = (away >= blocks.low).logical_and(away <= blocks.high);
    if (plan_.least.defined()) {
      const Tensor index = heads_ * T_ + query_place_;  // [B, R·H, g, c]
      const Tensor least =
          plan_.least.flatten().index_select(0, index.flatten()).to(torch::kLong).view(index.sizes());
      inside = inside.logical_and(place.unsqueeze(3) >= least.unsqueeze(4));
    }
    return inside;
  }

  Part part(const KeySlot& slot, const Tensor& place, const Tensor& side) const {
    if (slot.side && side.defined()) return {place * H_ + heads_ % H_, false};
    const Tensor at =
        slot.side ? plan_.side_at.index_select(0, place.flatten()).to(torch::kLong).view(place.sizes())
                  : positions(place);
    return {input_index(at), true};
  }

  // Columns of all slots side by side.
  Tensor joined(std::vector<Tensor>& parts) const {
    std::vector<int64_t> shape(5, 1);
    for (const auto& p : parts) {
      for (size_t d = 0; d < 4; ++d) shape[d] = std::max(shape[d], p.size(static_cast<int64_t>(d)));
    }
    for (auto& p : parts) {
      shape[4] = p.size(4);
      p = p.expand(shape);
    }
    return torch::cat(parts, 4);
  }

  const IntervalPlan& plan_;
  int64_t T_, H_, P_, R_H_;
  torch::TensorOptions options_;
  Tensor heads_, query_place_, query_valid_, own_;
  std::vector<Part> parts_;
};

template <class F>
void for_each_slice(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side, const F& f) {
  const int64_t R_H = plan.order.defined() ? plan.order.size(0) : qkv.size(2);
  for (const auto& blocks : plan.blocks) {
    const int64_t G = blocks.first.size(1);
    for (int64_t g = 0; g < G;) {
      const int64_t a_block = plan.rows.count * R_H * blocks.size * Slice::columns(blocks, G);
      const int64_t next =
          std::min(G, g + std::max<int64_t>(1, kMostWeights / std::max<int64_t>(1, a_block)));
      f(Slice(plan, blocks, qkv, side, g, next));
      g = next;
    }
  }
}

// [N, parts, H, P] → parts of [N·H, P].
std::vector<Tensor> flat_parts(const Tensor& x) {
  std::vector<Tensor> parts;
  for (const auto& p : x.unbind(1)) parts.push_back(p.reshape({-1, x.size(3)}));
  return parts;
}

}  // namespace

IntervalAttentionOutput interval_forward_gathered(const IntervalPlan& plan, const Tensor& qkv,
                                                  const Tensor& side) {
  const int64_t T = qkv.size(0), P = qkv.size(3),
                R_H = plan.order.defined() ? plan.order.size(0) : qkv.size(2);
  const auto own = flat_parts(qkv);
  const auto extra = side.defined() ? flat_parts(side) : std::vector<Tensor>(2);
  Tensor out = torch::zeros({T * R_H + 1, P}, qkv.options()),
         lse = torch::zeros({T * R_H + 1}, qkv.options().dtype(precise(qkv.scalar_type())));
  for_each_slice(plan, qkv, side, [&](const Slice& slice) {
    const Tensor s = slice.scores(slice.queries(own[0]), slice.keys(own[1], extra[0]));
    const Tensor largest = s.amax(-1, /*keepdim=*/true).clamp_min(-1e30);
    Tensor weights = torch::exp(s - largest);
    const Tensor sum = weights.sum(-1, /*keepdim=*/true).clamp_min(1e-30);
    weights = slice.dropped(weights / sum).to(qkv.scalar_type());
    const Tensor at = slice.output_index();
    out.index_copy_(0, at, torch::matmul(weights, slice.keys(own[2], extra[1])).view({-1, P}));
    lse.index_copy_(0, at, (largest + torch::log(sum)).flatten());
  });
  return {out.narrow(0, 0, T * R_H).view({T, R_H, P}), lse.narrow(0, 0, T * R_H).view({T, R_H})};
}

IntervalGradient interval_backward_gathered(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                                            const IntervalAttentionOutput& y, const Tensor& d_out,
                                            const Tensor& d_lse) {
  const int64_t T = qkv.size(0), H = qkv.size(2), P = qkv.size(3), R_H = y.out.size(1);
  const torch::Dtype type = precise(qkv.scalar_type());
  const auto own = flat_parts(qkv);
  const auto extra = side.defined() ? flat_parts(side) : std::vector<Tensor>(2);
  const auto sums = [&](int64_t rows) { return torch::zeros({rows, P}, qkv.options().dtype(type)); };
  Tensor d_q = sums(T * H), d_k = sums(T * H), d_v = sums(T * H);
  Tensor d_side_k = side.defined() ? sums(side.size(0) * H) : Tensor(),
         d_side_v = side.defined() ? sums(side.size(0) * H) : Tensor();
  // What is no query reads the row of zeros at the end.
  const auto with_end = [](const Tensor& x) { return torch::cat({x, torch::zeros_like(x.narrow(0, 0, 1))}); };
  const Tensor all_d_out = with_end(d_out.reshape({T * R_H, P})),
               all_lse = with_end(y.lse.reshape({T * R_H, 1}));
  Tensor delta = (d_out.to(type) * y.out.to(type)).sum(-1);
  if (d_lse.defined()) delta = delta - d_lse;
  const Tensor all_delta = with_end(delta.reshape({T * R_H, 1}));

  for_each_slice(plan, qkv, side, [&](const Slice& slice) {
    const Tensor q = slice.queries(own[0]), k = slice.keys(own[1], extra[0]),
                 v = slice.keys(own[2], extra[1]);
    const Tensor at = slice.output_index().view(q.sizes().slice(0, 4));
    const Tensor g_out = Slice::take(all_d_out, at);
    const Tensor weights = torch::exp(slice.scores(q, k) - Slice::take(all_lse, at));
    slice.add_to_keys(torch::matmul(slice.dropped(weights).to(g_out.dtype()).transpose(3, 4), g_out), d_v,
                      d_side_v);
    const Tensor g_weights = slice.dropped(torch::matmul(g_out, v.transpose(3, 4)).to(type));
    const Tensor g = (weights * (g_weights - Slice::take(all_delta, at)) * plan.scale).to(q.dtype());
    d_q.index_add_(0, slice.input_index(slice.query_at).flatten(),
                   torch::matmul(g, k).view({-1, P}).to(type));
    slice.add_to_keys(torch::matmul(g.transpose(3, 4), q), d_k, d_side_k);
  });
  const auto joined = [&](std::vector<Tensor> parts) {
    for (auto& p : parts) p = p.view({-1, 1, H, P});
    return torch::cat(parts, 1).to(qkv.scalar_type());
  };
  return {joined({d_q, d_k, d_v}), side.defined() ? joined({d_side_k, d_side_v}) : Tensor()};
}

}  // namespace lra
