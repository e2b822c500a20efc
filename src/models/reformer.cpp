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
#include "base/error.h"
#include "kernels/bucket_order/bucket_order.h"
#include "kernels/combine_rounds/combine_rounds.h"
#include "kernels/hash_buckets/hash_buckets.h"
#include "kernels/interval_attention/interval_blocks.h"
#include "kernels/project/project.h"
#include "kernels/shared_keys/shared_keys.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

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
    const BucketOrder sorted = sort(qv.select(1, 0).detach(), f);
    const IntervalAttentionOutput y = interval_attention({.qkv = shared_keys(qv, options_.normalize_keys),
                                                          .rows = f.rows,
                                                          .blocks = {chunks(f.rows)},
                                                          .order = sorted.order,
                                                          .least = sorted.least,
                                                          .spare_self = true});
    const Tensor out = (R > 1 ? combine_rounds(y.out, y.lse, R) : y.out).reshape({T, -1});
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
  Tensor keys(const Tensor& q) const { return options_.normalize_keys ? unit_keys(q) : q; }

  // R: [rounds, columns, P]; the numbers of a column do not depend on how many there are.
  Tensor rotations(int64_t columns, const Tensor& q, const Forward& f) const {
    const bool fresh = f.training && options_.rotation == "fresh";
    const Tensor step = fresh ? f.step : torch::zeros({1}, q.options().dtype(torch::kLong));
    const auto type = q.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    return hash_matrix(options_.rounds, columns, q.size(-1), {site_, fresh ? f.seed : 0, step}, type);
  }

  BucketOrder sort(const Tensor& q, const Forward& f) const {
    const int64_t c = options_.chunk, columns = (f.rows.longest + c - 1) / c;
    const Tensor buckets = hash_buckets(q, rotations(columns, q, f), f.rows, c);
    return bucket_order(buckets, f.rows, hash_buckets_of_row(columns), causal_);
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
    const Tensor matrix = rotations(half, q, f);
    std::vector<Tensor> out, lse;
    for (int64_t r = 0; r < options_.rounds; ++r) {
      const Tensor projected = torch::matmul(q, matrix[r].t());
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
