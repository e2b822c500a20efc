// Linformer: "Linformer: Self-Attention with Linear Complexity" (Wang et al., 2020).
//
//   K̃ = Eᵀ K,  Ṽ = Eᵀ V                       E: [n_max, k] learned, one a block, shared by keys, values,
//   heads y = dropout(softmax(q K̃ᵀ / √P)) Ṽ W_o     for each head
//
// Position t of a row has row t of E, so a row of n positions uses E[0:n]. Time 4·H·L·k·P, memory O(L·k) for
// one block of queries at a time here, O(L) beyond.
//
// k is `linformer.k`, at most a quarter of the longest input. There is no causal form: every K̃ mixes all
// positions.
//
// Differences: the paper has k of 128 to 256, E of normal numbers, and variants with separate projections;
// the arena's code has k = 16 on every task (a setting of 32 for Text does not reach the model), Xavier's
// initial values as here, and lets padding into K̃ and Ṽ.
#include <algorithm>

#include "kernels/cross_attention/cross_attention.h"
#include "kernels/project/project.h"
#include "kernels/project_rows/project_rows.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

struct LinformerOptions : ModelOptions {
  int64_t k = 256;

  void visit(Fields& f) override {
    f.integer("k", k, 1, 1 << 16,
              "projected keys and values; at most a quarter of the longest input is used");
  }
};

int64_t projected_length(const EncoderConfig& c, const LinformerOptions& options) {
  return std::min(options.k, std::max<int64_t>(1, c.positions_count() / 4));
}

// Rows of `length` positions each, of as many rows as `like` has.
Rows short_rows(const Rows& like, int64_t length) {
  Rows rows = like;
  rows.offsets = torch::arange(like.count + 1, like.offsets.options()) * length;
  rows.lengths = torch::full_like(like.lengths, length);
  rows.positions = like.count * length;
  rows.longest = rows.pitch = length;
  rows.full = true;
  return rows;
}

class ProjectedAttention : public QkvMixer {
 public:
  ProjectedAttention(const EncoderConfig& c, const LinformerOptions& options, int64_t index)
      : QkvMixer(c, index) {
    const int64_t n = c.positions_count(), k = projected_length(c, options);
    e_ = parameter("e", {n, k}, Init::xavier(n, k));
  }

  Tensor forward_first(const Tensor& x, const Forward& f) const override {
    const Tensor first = take_rows(x, f.first_positions()),
                 q = q_->product(first, f).view({first.size(0), heads_, -1}),
                 kv = project(x, {k_->weight, v_->weight}, f.copies);
    return o_->product(attend(q, kv, f.rows, f.at_first_positions()).flatten(1), f);
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const auto parts = qkv.split_with_sizes({1, 2}, 1);  // whose gradients are joined in one pass
    return attend(parts[0].squeeze(1), parts[1].flatten(1), f.rows, f);
  }
  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const Tensor projection = e_.narrow(0, 0, row.length).t();  // [k, n]
    CrossAttentionRow one{row.q, torch::matmul(projection, row.k), torch::matmul(projection, row.v)};
    one.scale = 1.0 / std::sqrt(static_cast<double>(row.q.size(2)));
    one.dropout = weight_dropout(f), one.number = row.number;
    return cross_attention_reference(one);
  }

 private:
  // q: [·, H, P] at the positions of `at`, kv: [T, 2·H·P] at those of `rows`
  Tensor attend(const Tensor& q, const Tensor& kv, const Rows& rows, const Forward& at) const {
    const auto heads = project_rows(kv, e_, rows).view({-1, 2, heads_, q.size(2)}).unbind(1);  // [B·k, H, P]
    CrossAttentionInput in;
    in.q = q, in.k = heads[0], in.v = heads[1];
    in.queries = at.rows, in.keys = short_rows(rows, e_.size(1));
    in.scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
    in.dropout = weight_dropout(at);
    return cross_attention(in);
  }

  Tensor e_;
};

class Linformer : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "linformer",
        .title = "Linformer",
        .paper = "Wang et al., Linformer: Self-Attention with Linear Complexity, 2020",
        .formula = "softmax(q (Eᵀ K)ᵀ / √P) Eᵀ V, E [n_max, k] learned and shared by keys, values and heads",
        .cost = "time O(L·k), memory O(L)",
        .causal = false,
        .keeps_padding = true,
        .differences =
            "Keys and values share one projection, as in the arena's code; k is 256 as in the paper, "
            "where the arena's code has 16. There padding enters Eᵀ K and Eᵀ V; here it does so only with "
            "model.padding=kept.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<LinformerOptions>(); }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& options,
                               int64_t index) const override {
    const auto& own = dynamic_cast<const LinformerOptions&>(options);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<ProjectedAttention>(c, own, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions& options) const override {
    const int64_t k = projected_length(c, dynamic_cast<const LinformerOptions&>(options));
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width + k * c.positions_count();
  }
};

const Registered<Model> linformer(std::make_unique<Linformer>(), LRA_HERE);

}  // namespace
}  // namespace lra
