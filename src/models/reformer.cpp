// Reformer: "Reformer: The Efficient Transformer" (Kitaev, Kaiser, Levskaya, 2020): attention to what falls
// into the same bucket of a locality-sensitive hash.
//
//   q = x W_qk,  k = q / ‖q‖,  v = x W_v                              queries and keys share a projection
//   for each round r:
//     bucket(i) = argmax [q_i R, −q_i R]                               R: [P, ⌈n/c⌉] normal numbers, for each
//                                                                      layer and round; 2⌈n/c⌉ buckets
//     sort the row by (bucket, position); cut it into chunks of c; a chunk sees itself and the one before it,
//     the first chunk the last:   o_r, lse_r = softmax(q kᵀ / √P) v and its log-sum-exp
//     a position sees itself only where it sees nothing else
//   y = Σ_r softmax_r(lse_r) o_r W_o
//
// R is drawn anew at every training step and constant otherwise.
//
// Causal: chunks would tell a position how many later ones fell into earlier buckets. Instead it sees the
// last c of its own bucket up to itself, which later positions cannot change.
//
// Time 2·H·rounds·L·2c·P + H·rounds·L²·P/c, the latter for hashing; memory O(L). No dropout on the weights,
// as in the arena's code.
//
// Differences: the reversible layers and chunked feed-forward layers of the paper save memory and compute the
// same; they are left out. The arena's code has ten chunks and buckets whatever the length, one round, the
// same R for ever, multiplies scores by √P, neither scales keys nor leaves out the position itself, has no
// projection W_o (`out_proj` off), and merges heads without transposing, which mixes heads and positions.
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "kernels/interval_attention/interval_blocks.h"
#include "kernels/noise/noise.h"
#include "kernels/project/project.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Numbers of the hash held at a time: what a cache holds; on a GPU what keeps it busy.
int64_t most_projections(const torch::Device& device) {
  return device.is_cpu() ? int64_t{1} << 17 : int64_t{1} << 24;
}
constexpr double kSelf = 1e5;  // what interval_attention takes off a score with itself

struct ReformerOptions : ModelOptions {
  int64_t chunk = 64, rounds = 2;
  bool normalize_keys = true, out_proj = true;
  std::string rotation = "fresh";
  void visit(Fields& f) override {
    f.integer("chunk", chunk, 1, 1 << 20, "positions of a chunk (c)");
    f.integer("rounds", rounds, 1, 64, "hashes, each with its own sorting");
    f.flag("normalize_keys", normalize_keys, "keys of length 1");
    f.flag("out_proj", out_proj, "the projection W_o; without it qkv_width must equal width");
    f.choice("rotation", rotation, {"fresh", "const"}, "R anew at every training step, or always the same");
  }
};

// k = q / ‖q‖
Tensor unit_keys(const Tensor& q) { return q * torch::rsqrt(q.square().sum(-1, /*keepdim=*/true) + 1e-6); }

// [q, k, v] from [q, v] along dimension 1, k = unit_keys(q). What is kept is the result, which attention
// keeps anyway.
class SharedKeys : public torch::autograd::Function<SharedKeys> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qv) {
    const Tensor q = qv.narrow(1, 0, 1);
    Tensor qkv = torch::cat({q, unit_keys(q), qv.narrow(1, 1, 1)}, 1);
    context->save_for_backward({qkv});
    return qkv;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor qkv = context->get_saved_variables()[0], q = qkv.narrow(1, 0, 1), k = qkv.narrow(1, 1, 1),
                 d_k = gradients[0].narrow(1, 1, 1);
    const Tensor scale = torch::rsqrt(q.square().sum(-1, /*keepdim=*/true) + 1e-6);
    const Tensor d_q = (d_k - k * (k * d_k).sum(-1, /*keepdim=*/true)) * scale + gradients[0].narrow(1, 0, 1);
    return {torch::cat({d_q, gradients[0].narrow(1, 2, 1)}, 1)};
  }
};

class HashedAttention : public Mixer {
 public:
  HashedAttention(const EncoderConfig& c, const ReformerOptions& o, int64_t index)
      : options_(o), heads_(c.heads), causal_(c.causal), site_(block_site(index, 4)) {
    if (!o.out_proj && c.qkv_width != c.width) {
      fail("config", "reformer.out_proj off: model.qkv_width {} must equal model.width {}.", c.qkv_width,
           c.width);
    }
    qk_ = register_module("qk", projection(c.width, c.qkv_width));
    v_ = register_module("v", projection(c.width, c.qkv_width));
    if (o.out_proj) o_ = register_module("o", projection(c.qkv_width, c.width));
  }

  Tensor forward(const Tensor& x, const Forward& f) const override {
    const int64_t T = x.size(0), R = options_.rounds;
    const Tensor qv = project(x, {qk_->weight, v_->weight}, f.copies).view({T, 2, heads_, -1});
    const Tensor q = qv.narrow(1, 0, 1);
    const Sorted sorted = sort(q.squeeze(1), f);
    const IntervalAttentionOutput y =
        interval_attention({.qkv = options_.normalize_keys ? SharedKeys::apply(qv) : torch::cat({q, qv}, 1),
                            .rows = f.rows,
                            .blocks = {chunks(f.rows)},
                            .order = sorted.order,
                            .least = sorted.least,
                            .spare_self = true});
    Tensor out = y.out;
    if (R > 1) {
      const Tensor share = torch::softmax(y.lse.view({T, R, heads_, 1}), 1).to(out.scalar_type());
      out = (out.view({T, R, heads_, -1}) * share).sum(1);
    }
    out = out.reshape({T, -1});
    return o_ ? o_->product(out, f) : out;
  }

  Tensor reference(const Tensor& x, const Forward& f) const override {
    const Tensor q = qk_->reference(x).view({x.size(0), heads_, -1}), k = keys(q),
                 v = v_->reference(x).view({x.size(0), heads_, -1});
    Tensor y = torch::zeros({x.size(0), v.size(1) * v.size(2)}, x.options());
    for (int64_t b = 0; b < f.rows.count; ++b) {
      const int64_t at = f.rows.offsets[b].item<int64_t>(), n = f.rows.lengths[b].item<int64_t>();
      std::vector<Tensor> heads;
      for (int64_t h = 0; h < heads_; ++h) {
        const auto part = [&](const Tensor& t) { return t.narrow(0, at, n).select(1, h); };
        heads.push_back(row_reference(part(q), part(k), part(v), f));
      }
      y = torch::cat({y.narrow(0, 0, at), torch::cat(heads, 1), y.narrow(0, at + n, y.size(0) - at - n)});
    }
    return o_ ? o_->reference(y) : y;
  }

 private:
  struct Sorted {
    Tensor order, least;  // as interval_attention takes them
  };

  Tensor keys(const Tensor& q) const { return options_.normalize_keys ? unit_keys(q) : q; }

  // R: [P, rounds · columns]; the numbers of a column do not depend on how many there are.
  Tensor rotations(int64_t P, int64_t columns, const torch::TensorOptions& like, const Forward& f) const {
    const auto number = torch::TensorOptions().dtype(torch::kLong).device(like.device());
    const Tensor p = torch::arange(P, number).view({P, 1, 1}),
                 r = torch::arange(options_.rounds, number).view({1, -1, 1}),
                 c = torch::arange(columns, number);
    const bool fresh = f.training && options_.rotation == "fresh";
    const Noise noise{site_, fresh ? f.seed : 0, fresh ? f.step : torch::zeros({1}, number)};
    return normal_noise((r * P + p) * (1 << 20) + c, noise, c10::typeMetaToScalarType(like.dtype()))
        .view({P, -1});
  }

  // Buckets of all positions, int64 [rounds·H, T]. half: int64 [T, 1], half the buckets of a position's row.
  Tensor buckets(const Tensor& q, const Tensor& half, int64_t columns, const Forward& f) const {
    const int64_t T = q.size(0), H = heads_, R = options_.rounds;
    const Tensor x = q.scalar_type() == torch::kDouble ? q : q.to(torch::kFloat);
    const Tensor matrix = rotations(q.size(2), columns, x.options(), f);
    const Tensor column = torch::arange(columns, half.options());
    const int64_t step = std::max<int64_t>(1, most_projections(x.device()) / (H * R * columns));
    std::vector<Tensor> parts;
    for (int64_t t = 0; t < T; t += step) {
      const int64_t n = std::min(step, T - t);
      const Tensor halves = half.narrow(0, t, n).view({n, 1, 1});
      const Tensor unused = (column >= halves.unsqueeze(3));  // [n, 1, 1, columns]
      const Tensor projected = torch::matmul(x.narrow(0, t, n), matrix).view({n, H, R, columns});
      const auto [most, at_most] = projected.masked_fill(unused, -INFINITY).max(3);
      const auto [least, at_least] = projected.masked_fill(unused, INFINITY).min(3);
      parts.push_back(torch::where(most >= -least, at_most, at_least + halves));  // [n, H, R]
    }
    return torch::cat(parts).permute({2, 1, 0}).reshape({R * H, T});
  }

  Sorted sort(const Tensor& vectors, const Forward& f) const {
    const torch::NoGradGuard no_grad;
    const Rows& rows = f.rows;
    const int64_t T = rows.positions, c = options_.chunk, columns = (rows.longest + c - 1) / c;
    const Tensor position = torch::arange(T, rows.slots.options());
    const Tensor row = torch::searchsorted(rows.offsets.narrow(0, 1, rows.count), position.to(torch::kInt),
                                           /*out_int32=*/false, /*right=*/true);  // `count` after the last
    // What is left over after the last row sorts as a row of its own; padding sorts after its row.
    const Tensor lengths =
        torch::constant_pad_nd(rows.lengths, {0, 1}, T).to(torch::kLong).index_select(0, row);
    const Tensor starts =
        torch::constant_pad_nd(rows.offsets.narrow(0, 0, rows.count), {0, 1}).to(torch::kLong);
    const Tensor inside = position - starts.index_select(0, row) < lengths;
    const Tensor half = torch::floor_divide(lengths + (c - 1), c).clamp_max(columns).unsqueeze(1);
    const Tensor bucket = buckets(vectors.detach(), half, columns, f);
    const Tensor group =
        row * (2 * columns + 1) + torch::where(inside, bucket, torch::full_like(bucket, 2 * columns));
    const Tensor key = std::get<0>(torch::sort(group * T + position, 1));  // no two are equal
    Sorted sorted;
    sorted.order = key.remainder(T).to(torch::kInt);
    if (causal_) {
      const Tensor of = torch::floor_divide(key, T);
      const Tensor same = torch::constant_pad_nd(of.narrow(1, 1, T - 1) == of.narrow(1, 0, T - 1), {1, 0}, 0);
      const Tensor begins = torch::where(same, torch::zeros_like(position), position);
      sorted.least = std::get<0>(torch::cummax(begins, 1)).to(torch::kInt);
    }
    return sorted;
  }

  IntervalBlocks chunks(const Rows& all) const {
    const int64_t c = options_.chunk;
    const RowBlocks rows = row_blocks(all, c);
    if (causal_) {
      return {.size = c,
              .first = rows.first,
              .last = rows.last,
              .slots = {{.column = 0, .width = 2 * c - 1, .banded = true}},
              .begin = slot_table({torch::maximum(rows.first - (c - 1), rows.start)}),
              .end = slot_table({rows.last}),
              .low = -(c - 1)};
    }
    const Tensor last_chunk = torch::where(rows.used > 1, rows.start + (rows.used - 1) * c, rows.end);
    return {.size = c,
            .first = rows.first,
            .last = rows.last,
            .slots = {{.column = 0, .width = c}, {.column = c, .width = c}},
            .begin = slot_table({torch::where(rows.index == 0, last_chunk, rows.first - c), rows.first}),
            .end = slot_table({torch::where(rows.index == 0, rows.end, rows.first), rows.last})};
  }

  // One row and head, [n, P] each, by the definition.
  Tensor row_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Forward& f) const {
    const int64_t n = q.size(0), P = q.size(1), c = options_.chunk, half = (n + c - 1) / c, G = half;
    const Tensor matrix = rotations(P, half, q.options(), f).view({P, options_.rounds, half});
    std::vector<Tensor> out, lse;
    for (int64_t r = 0; r < options_.rounds; ++r) {
      const Tensor projected = torch::matmul(q, matrix.select(1, r));
      const Tensor bucket = torch::cat({projected, -projected}, 1).argmax(1);
      const Tensor rank = bucket.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false).argsort();
      Tensor bias = torch::full({n, n}, -std::numeric_limits<double>::infinity(), torch::kDouble);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = rank[i].item<int64_t>();
        for (int64_t j = 0; j < n; ++j) {
          const int64_t other = rank[j].item<int64_t>();
          const bool seen = causal_ ? bucket[i].item<int64_t>() == bucket[j].item<int64_t>() && other <= at &&
                                          at - other < c
                                    : other / c == at / c || other / c == (at / c + G - 1) % G;
          if (seen) bias[i][j] = i == j ? -kSelf : 0.0;
        }
      }
      const Tensor scores =
          torch::matmul(q, k.t()) / std::sqrt(static_cast<double>(P)) + bias.to(q.options());
      out.push_back(torch::matmul(torch::softmax(scores, 1), v));
      lse.push_back(torch::logsumexp(scores, 1));
    }
    const Tensor share = torch::softmax(torch::stack(lse), 0).unsqueeze(2);
    return (torch::stack(out) * share).sum(0);
  }

  std::shared_ptr<Linear> qk_, v_, o_;
  ReformerOptions options_;
  int64_t heads_;
  bool causal_;
  uint64_t site_;
};

class Reformer : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "reformer",
        .title = "Reformer",
        .paper = "Kitaev, Kaiser, Levskaya, Reformer: The Efficient Transformer, ICLR 2020",
        .formula =
            "softmax(q kᵀ / √P) v with k = q / ‖q‖, over the query's chunk of c and the one before it after "
            "sorting by a locality-sensitive hash; several hashes, weighted by their log-sum-exp",
        .cost = "time O(rounds·(L·2c + L²/c)), memory O(L)",
        .causal = true,
        .differences =
            "No reversible layers. The causal form sees the last c of its own bucket, since chunks would "
            "leak what "
            "comes later. In the arena's code there are ten chunks whatever the length, one constant hash, "
            "scores "
            "multiplied by √P, no projection after the heads (out_proj off), and heads merged with "
            "positions.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<ReformerOptions>(); }
  std::unique_ptr<ModelOptions> small_options() const override {
    auto o = std::make_unique<ReformerOptions>();
    o->chunk = 6;
    return o;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& o, int64_t index) const override {
    const auto& options = dynamic_cast<const ReformerOptions&>(o);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<HashedAttention>(c, options, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions& o) const override {
    const int64_t projections = dynamic_cast<const ReformerOptions&>(o).out_proj ? 3 : 2;
    return feed_forward_parameters(c) + projections * c.width * c.qkv_width;
  }
};

const Registered<Model> reformer(std::make_unique<Reformer>(), LRA_HERE);

}  // namespace
}  // namespace lra
