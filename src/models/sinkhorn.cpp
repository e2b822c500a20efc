// Sinkhorn Transformer: "Sparse Sinkhorn Attention" (Tay et al., 2020).
//
// A row is cut into G blocks of b positions. A small network sorts them, softly: query block i also sees a
// block that is mixed of all, with weights that every block shares out evenly.
//
//   d_i = Σ_{t in block i} k_t                                       for each head
//   M_ij = exp((d_i·w_j + noise) / τ)                                w: [max_blocks, P]; Gumbel noise in
//   training P = M, its columns and then its rows scaled to sum to 1, `iters` times       doubly stochastic
//   in the limit k'_i[s] = Σ_j P_ij k_j[s],  v'_i[s] = Σ_j P_ij v_j[s]            slot s of block i; missing
//   positions are 0 y = dropout(softmax(q [k_i, k'_i]ᵀ / √P)) [v_i, v'_i] W_o         own and sorted keys in
//   one softmax
//
// CLS belongs to no block: it sees all and is seen by all.
// Causal: d_i sums over all positions before block i, P_ij is 0 for j ≥ i, a column is scaled by its sum down
// to row i, and of the own block a query sees what is not later.
//
// Time 2·H·L·2b·P + 2·H·L²·P/b, the latter for mixing; memory O(L) + H·(L/b)².
//
// Differences: the paper's sorting network may have more layers. The arena's code cuts blocks along the wrong
// axis, sums the sorting weights out (they have no effect and no gradient), attends to own and summed keys in
// two softmaxes and adds them, has no CLS and a head of one layer.
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/interval_attention/interval_blocks.h"
#include "kernels/noise/noise.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kNothing = -1e30;  // a logarithm of zero that can be subtracted from itself

struct SinkhornOptions : ModelOptions {
  int64_t block = 64, iters = 8;
  double temperature = 0.75;
  void visit(Fields& f) override {
    f.integer("block", block, 1, 1 << 20, "positions of a block (b); the arena has 50, for images 64");
    f.integer("iters", iters, 1, 1000, "times that columns and rows are scaled");
    f.real("temperature", temperature, 1e-3, 1e3, "τ: the lower, the harder the sorting");
  }
};

int64_t max_blocks(const EncoderConfig& c, const SinkhornOptions& o) {
  return (c.max_length + o.block - 1) / o.block;
}

// Σ_j P_ij [k_j, v_j], j over the blocks of a row: [B·G·b, 2, H, P] from qkv [T, 3, H, P] and P [B, H, G, G].
// On the way back blocks are gathered again instead of kept.
class MixedBlocks : public torch::autograd::Function<MixedBlocks> {
 public:
  // at, valid [B·G·b]: a block's positions, and whether they are there.
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& matrix, const Tensor& at,
                        const Tensor& valid) {
    context->save_for_backward({qkv, matrix, at, valid});
    return by_position(torch::matmul(matrix, by_head(gathered(qkv, at, valid), matrix)), qkv.size(3));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &matrix = saved[1], &at = saved[2], &valid = saved[3];
    const Tensor above = by_head(gradients[0], matrix);
    const Tensor d_matrix = torch::matmul(above, by_head(gathered(qkv, at, valid), matrix).transpose(2, 3));
    const Tensor d_kv =
        by_position(torch::matmul(matrix.transpose(2, 3), above), qkv.size(3)) * valid.unsqueeze(-1);
    const Tensor d_qkv = torch::zeros_like(qkv);
    d_qkv.narrow(1, 1, 2).index_add_(0, at, d_kv);
    return {d_qkv, d_matrix, {}, {}};
  }

 private:
  // [B·G·b, 2, H, P]
  static Tensor gathered(const Tensor& qkv, const Tensor& at, const Tensor& valid) {
    return qkv.narrow(1, 1, 2).index_select(0, at) * valid.unsqueeze(-1);
  }
  // [B·G·b, 2, H, P] → [B, H, G, b, 2, P], the last three as one
  static Tensor by_head(const Tensor& x, const Tensor& matrix) {
    const int64_t B = matrix.size(0), H = matrix.size(1), G = matrix.size(2);
    return x.reshape({B, G, -1, 2, H, x.size(3)}).permute({0, 4, 1, 2, 3, 5}).reshape({B, H, G, -1});
  }
  static Tensor by_position(const Tensor& x, int64_t P) {
    const int64_t B = x.size(0), H = x.size(1), G = x.size(2);
    return x.view({B, H, G, -1, 2, P}).permute({0, 2, 3, 4, 1, 5}).reshape({-1, 2, H, P});
  }
};

class SinkhornAttention : public QkvMixer {
 public:
  SinkhornAttention(const EncoderConfig& c, const SinkhornOptions& o, int64_t index)
      : QkvMixer(c, index),
        options_(o),
        causal_(c.causal),
        open_(c.cls() && !c.causal),
        noise_site_(block_site(index, 4)) {
    sort_ = register_module("sort", projection(c.qkv_width / c.heads, max_blocks(c, o)));
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const int64_t b = options_.block, lead = open_ ? 1 : 0, B = f.rows.count;
    const RowBlocks rows = row_blocks(f.rows, b, lead);
    const int64_t pitch = rows.count * b;
    const Tensor first_side =
        (torch::arange(B, f.rows.offsets.options()) * pitch).unsqueeze(1) + rows.index * b;
    const Tensor none = rows.index * 0;
    // A row shorter than a block has no more sorted keys than keys; the first block of the causal form has
    // none.
    const Tensor sorted = causal_ ? torch::where(rows.index == 0, none, none + b).expand_as(rows.first)
                                  : (rows.end - rows.start).clamp_max(b).expand_as(rows.first);
    const Tensor cls = (rows.start - lead).expand_as(rows.first);
    IntervalBlocks blocks{.size = b,
                          .first = rows.first,
                          .last = rows.last,
                          .slots = {{.column = 0, .width = lead},
                                    {.column = lead, .width = b, .banded = causal_},
                                    {.column = lead + b, .width = b, .side = true}},
                          .begin = slot_table({cls, rows.first, first_side}),
                          .end = slot_table({cls + lead, rows.last, first_side + sorted}),
                          .low = -b};
    std::vector<IntervalBlocks> all = {blocks};
    if (open_) all.push_back(open_first(f.rows));
    return interval_attention({.qkv = qkv,
                               .rows = f.rows,
                               .blocks = all,
                               .dropout = weight_dropout(f),
                               .side = {.at = {}, .kv = sorted_blocks(qkv, rows, f), .pitch = pitch}})
        .out;
  }

  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const int64_t b = options_.block, lead = open_ ? 1 : 0, n = row.length, G = (n - lead + b - 1) / b;
    // [H, n, P] → [H, G, b, P], zeros after the end
    const auto blocks = [&](const Tensor& x) {
      return torch::constant_pad_nd(x.narrow(1, lead, n - lead), {0, 0, 0, G * b - (n - lead)})
          .view({heads_, G, b, x.size(2)});
    };
    const Tensor k = blocks(row.k), v = blocks(row.v), P = matrix_reference(k, row.number, f);
    const auto mixed = [&](const Tensor& x) {
      return torch::einsum("hij,hjsp->hisp", {P, x}).reshape({heads_, G * b, x.size(3)});
    };
    const auto column = [&](int64_t, int64_t i, int64_t j) -> int64_t {
      if (open_ && i == 0) return j < n ? j : -1;
      if (open_ && j == 0) return 0;
      const int64_t block = (i - lead) / b;
      if (j < n) return (j - lead) / b == block && !(causal_ && j > i) ? lead + (j - lead) % b : -1;
      const int64_t slot = (j - n) % b;
      const bool there = (j - n) / b == block && (causal_ ? block > 0 : slot < n - lead);
      return there ? lead + b + slot : -1;
    };
    return dense_attention(row.q, torch::cat({row.k, mixed(k)}, 1), torch::cat({row.v, mixed(v)}, 1), column,
                           weight_dropout(f), row.number);
  }

  int64_t first_reach() const override { return open_ ? 0 : -1; }

 private:
  Noise noise(const Forward& f) const { return {noise_site_, f.seed, f.step}; }

  // Keys and values of the mixed blocks, [B·G·b, 2, H, P].
  Tensor sorted_blocks(const Tensor& qkv, const RowBlocks& rows, const Forward& f) const {
    const int64_t b = options_.block, B = f.rows.count, G = rows.count;
    const Tensor place = rows.start + torch::arange(G * b, rows.start.options());  // [B, G·b]
    const Tensor valid = (place < rows.end).to(qkv.scalar_type()).view({-1, 1, 1});
    const Tensor at = torch::minimum(place, rows.end - 1).flatten().to(torch::kLong);
    const Tensor sums =
        (qkv.select(1, 1).index_select(0, at) * valid).view({B, G, b, heads_, qkv.size(3)}).sum(2);
    return MixedBlocks::apply(qkv, sorting_matrix(sums, rows, f).to(qkv.scalar_type()), at, valid);
  }

  // P [B, H, G, G] from sums of keys [B, G, H, P]; logarithms of it until the end.
  Tensor sorting_matrix(Tensor sums, const RowBlocks& rows, const Forward& f) const {
    const int64_t B = sums.size(0), G = sums.size(1);
    if (causal_) sums = sums.cumsum(1) - sums;
    const Tensor scores = sort_->product(sums.reshape({B * G * heads_, -1}), f).narrow(1, 0, G);
    const torch::Dtype type = scores.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    Tensor x = scores.to(type).view({B, G, heads_, G}).permute({0, 2, 1, 3});
    if (f.training) x = x + gumbel_noise(noise_index(f.rows, G), noise(f), type);
    const Tensor i = rows.index.view({1, 1, G, 1}), j = rows.index.view({1, 1, 1, G}),
                 used = rows.used.view({B, 1, 1, 1});
    const Tensor outside = ((i >= used).logical_or(j >= used)).logical_or(causal_ ? j >= i : j < 0);
    x = (x / options_.temperature).masked_fill(outside, kNothing);
    for (int64_t round = 0; round < options_.iters; ++round) {
      const Tensor columns = causal_ ? torch::logcumsumexp(x, 2) : torch::logsumexp(x, 2, /*keepdim=*/true);
      x = (x - columns).masked_fill(outside, kNothing);
      x = (x - torch::logsumexp(x, 3, /*keepdim=*/true)).masked_fill(outside, kNothing);
    }
    return torch::exp(x);
  }

  // Names of the entries of P for the noise: row of the whole batch, head, i, j.
  Tensor noise_index(const Rows& rows, int64_t G) const {
    const auto number = rows.slots.options();
    const Tensor first = rows.offsets.narrow(0, 0, rows.count).to(torch::kLong);
    const Tensor row = rows.slots.index_select(0, first).bitwise_right_shift(24).view({-1, 1, 1, 1});
    const Tensor h = torch::arange(heads_, number).view({1, -1, 1, 1}), i = torch::arange(G, number);
    return (((row * heads_ + h) * (1 << 20)) + i.view({1, 1, G, 1})) * (1 << 20) + i.view({1, 1, 1, G});
  }

  // P [H, G, G] of one row by its definition, without logarithms. k: [H, G, b, P].
  Tensor matrix_reference(const Tensor& k, int64_t row, const Forward& f) const {
    const int64_t G = k.size(1);
    Tensor sums = k.sum(2);  // [H, G, P]
    if (causal_)
      sums = torch::cat({torch::zeros_like(sums.narrow(1, 0, 1)), sums.cumsum(1)}, 1).narrow(1, 0, G);
    Tensor x = torch::matmul(sums, sort_->weight.t()).narrow(2, 0, G);
    if (f.training) {
      const Rows alone = lay_out({1}, true, row);
      x = x + gumbel_noise(noise_index(alone, G), noise(f), x.scalar_type())[0];
    }
    Tensor m = torch::exp(x / options_.temperature);
    if (causal_) m = m.tril(-1);
    const auto nonzero = [](const Tensor& sum) { return torch::where(sum == 0, torch::ones_like(sum), sum); };
    for (int64_t round = 0; round < options_.iters; ++round) {
      m = m / nonzero(causal_ ? m.cumsum(1) : m.sum(1, /*keepdim=*/true));
      m = m / nonzero(m.sum(2, /*keepdim=*/true));
    }
    return m;
  }

  SinkhornOptions options_;
  bool causal_, open_;
  uint64_t noise_site_;
  std::shared_ptr<Linear> sort_;
};

class Sinkhorn : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "sinkhorn",
        .title = "Sinkhorn Transformer",
        .paper = "Tay et al., Sparse Sinkhorn Attention, ICML 2020",
        .formula =
            "softmax(q [k, k']ᵀ / √P) [v, v'] over the query's own block of b keys and a block sorted to it: "
            "k'_i = Σ_j P_ij k_j, P doubly stochastic by Sinkhorn's iterations",
        .cost = "time O(L·2b + L²/b), memory O(L + (L/b)²)",
        .causal = true,
        .differences =
            "A sorting network of one layer on sums of keys. CLS belongs to no block, sees all and is seen "
            "by all. "
            "In the arena's code blocks lie along the wrong axis, the sorting has no effect, own and sorted "
            "keys "
            "have a softmax each, and the head has one layer.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<SinkhornOptions>(); }
  std::unique_ptr<ModelOptions> small_options() const override {
    auto o = std::make_unique<SinkhornOptions>();
    o->block = 8;
    return o;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& o, int64_t index) const override {
    const auto& options = dynamic_cast<const SinkhornOptions&>(o);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<SinkhornAttention>(c, options, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions& o) const override {
    const int64_t sort = max_blocks(c, dynamic_cast<const SinkhornOptions&>(o)) * (c.qkv_width / c.heads);
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width + sort;
  }
};

const Registered<Model> sinkhorn(std::make_unique<Sinkhorn>(), LRA_HERE);

}  // namespace
}  // namespace lra
