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
#include "kernels/rows/wide_copy.h"
#include "kernels/sorting_matrix/sorting_matrix.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

// The blocks of all rows as one tensor [B, G·b, …], zeros where a block has no position. Rows that are all of
// one length and end with a block are looked at where they are; others are gathered.
struct BlockGrid {
  int64_t rows, blocks, size;     // B, G, b
  int64_t lead = -1, length = 0;  // of every row, where they are looked at
  // Else: the position of a cell, the cell of a position, and whether there is one (0 or 1).
  Tensor position = {}, cell = {};  // int64 [B·G·b], [T]
  Tensor filled = {}, inside = {};  // [B·G·b, 1, 1], [T, 1, 1]

  bool looks() const { return lead >= 0; }

  // Parts first … first + count − 1 of qkv [T, 3, H, P]: [B, G·b, count, H, P]
  Tensor cells(const Tensor& qkv, int64_t first, int64_t count) const {
    if (looks()) return view(qkv).narrow(2, first, count);
    const Tensor found = qkv.narrow(1, first, count).index_select(0, position) * filled.unsqueeze(-1);
    return found.view({rows, blocks * size, count, qkv.size(2), qkv.size(3)});
  }

  // What keys and values of cells [B, G·b, 2, H, P] give to qkv.
  Tensor gradient(const Tensor& d, const Tensor& qkv) const {
    Tensor d_qkv = torch::empty_like(qkv);
    d_qkv.narrow(1, 0, 1).zero_();
    if (looks()) {
      wide_copy(view(d_qkv).narrow(2, 1, 2), d);
      d_qkv.view({rows, length, -1}).narrow(1, 0, lead).zero_();
    } else {
      Tensor into = d_qkv.narrow(1, 1, 2);
      at::mul_out(into, d.flatten(0, 1).index_select(0, cell), inside.unsqueeze(-1));
    }
    return d_qkv;
  }
  // The same of the sums of each block's keys [B, G, H, P], added to what is there.
  void add_gradient(Tensor d_qkv, const Tensor& d_sums) const {
    if (looks()) {
      view(d_qkv).select(2, 1).unflatten(1, {blocks, size}).add_(d_sums.unsqueeze(2));
    } else {
      const Tensor block = torch::floor_divide(cell, size);
      d_qkv.select(1, 1).addcmul_(d_sums.flatten(0, 1).index_select(0, block), inside);
    }
  }

 private:
  Tensor view(const Tensor& qkv) const {  // [B, G·b, 3, H, P]
    return qkv.view({rows, length, 3, qkv.size(2), qkv.size(3)}).narrow(1, lead, blocks * size);
  }
};

BlockGrid block_grid(const Rows& all, const RowBlocks& blocks, int64_t b, int64_t lead, torch::Dtype type) {
  BlockGrid grid{all.count, blocks.count, b};
  if (all.full && all.count * all.longest == all.positions && (all.longest - lead) % b == 0) {
    grid.lead = lead, grid.length = all.longest;
    return grid;
  }
  const Tensor place = blocks.start + torch::arange(blocks.count * b, blocks.start.options());
  const Tensor there = (place < blocks.end).flatten();
  grid.position = torch::minimum(place, blocks.end - 1).flatten().to(torch::kLong);
  grid.filled = there.to(type).view({-1, 1, 1});
  // Cells without a position name one behind the last.
  const Tensor to = torch::where(there, grid.position, torch::full_like(grid.position, all.positions));
  const auto by_position = [&](const Tensor& by_cell) {
    std::vector<int64_t> shape = by_cell.sizes().vec();
    shape[0] = all.positions + 1;
    return torch::zeros(shape, by_cell.options()).index_copy_(0, to, by_cell).narrow(0, 0, all.positions);
  };
  grid.cell = by_position(torch::arange(to.size(0), to.options()));
  grid.inside = by_position(torch::ones_like(grid.filled));
  return grid;
}

// Between the two passes of an autograd function.
void save_grid(AutogradContext& context, const BlockGrid& g) {
  auto& data = context.saved_data;
  data["grid"] = std::vector<int64_t>{g.rows, g.blocks, g.size, g.lead, g.length};
  data["position"] = g.position, data["cell"] = g.cell, data["filled"] = g.filled, data["inside"] = g.inside;
}
BlockGrid saved_grid(AutogradContext& context) {
  auto& data = context.saved_data;
  const auto n = data["grid"].toIntVector();
  return {n[0],
          n[1],
          n[2],
          n[3],
          n[4],
          data["position"].toTensor(),
          data["cell"].toTensor(),
          data["filled"].toTensor(),
          data["inside"].toTensor()};
}

// Sums of the keys of each block, [B, G, H, P], and qkv as it is, for all that comes after: its gradient is
// then complete on the way back, and theirs is added into it.
class BlockSums : public torch::autograd::Function<BlockSums> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& qkv, const BlockGrid& grid) {
    save_grid(*context, grid);
    return {grid.cells(qkv, 1, 1).squeeze(2).unflatten(1, {grid.blocks, grid.size}).sum(2), qkv};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor d_qkv = gradients[1].contiguous();
    saved_grid(*context).add_gradient(d_qkv, gradients[0]);
    return {d_qkv, {}};
  }
};

// Σ_j P_ij [k_j, v_j], j over the blocks of a row: [B·G·b, 2, H, P] from qkv [T, 3, H, P] and P [B, H, G, G].
// On the way back blocks are brought together again instead of kept.
class MixedBlocks : public torch::autograd::Function<MixedBlocks> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& matrix,
                        const BlockGrid& grid) {
    context->save_for_backward({qkv, matrix});
    save_grid(*context, grid);
    const Tensor mixed = torch::matmul(matrix, by_head(grid.cells(qkv, 1, 2), grid));
    return wide_contiguous(by_position(mixed, qkv.size(3))).flatten(0, 1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &matrix = saved[1];
    const BlockGrid grid = saved_grid(*context);
    const Tensor above = by_head(gradients[0].unflatten(0, {grid.rows, grid.blocks * grid.size}), grid);
    const Tensor d_matrix = torch::matmul(above, by_head(grid.cells(qkv, 1, 2), grid).transpose(2, 3));
    const Tensor d = torch::matmul(matrix.transpose(2, 3), above);
    return {grid.gradient(by_position(d, qkv.size(3)), qkv), d_matrix, {}};
  }

 private:
  // [B, G·b, 2, H, P] → [B, H, G, b, 2, P], the last three as one
  static Tensor by_head(const Tensor& x, const BlockGrid& grid) {
    const Tensor heads = x.unflatten(1, {grid.blocks, grid.size}).permute({0, 4, 1, 2, 3, 5});
    return wide_contiguous(heads).flatten(3);
  }
  // and back, as a view
  static Tensor by_position(const Tensor& x, int64_t P) {
    return x.unflatten(3, {-1, 2, P}).permute({0, 2, 3, 4, 1, 5}).flatten(1, 2);
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
  Tensor mix(const Tensor& projected, const Forward& f) const override {
    const int64_t b = options_.block, lead = open_ ? 1 : 0, B = f.rows.count;
    const RowBlocks rows = row_blocks(f.rows, b, lead);
    const BlockGrid grid = block_grid(f.rows, rows, b, lead, projected.scalar_type());
    const variable_list summed = BlockSums::apply(projected, grid);
    const Tensor& qkv = summed[1];
    const Tensor matrix = matrix_of(summed[0], rows, f).to(qkv.scalar_type());
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
    return interval_attention(
               {.qkv = qkv,
                .rows = f.rows,
                .blocks = all,
                .dropout = weight_dropout(f),
                .side = {.at = {}, .kv = MixedBlocks::apply(qkv, matrix, grid), .pitch = pitch}})
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

  // P [B, H, G, G] from sums of keys [B, G, H, P].
  Tensor matrix_of(Tensor sums, const RowBlocks& rows, const Forward& f) const {
    const int64_t B = sums.size(0), G = sums.size(1);
    if (causal_) sums = sums.cumsum(1) - sums;
    const Tensor scores = sort_->product(sums.reshape({B * G * heads_, -1}), f).narrow(1, 0, G);
    return sorting_matrix({.scores = scores.view({B, G, heads_, G}),
                           .used = rows.used.flatten(),
                           .rows = f.rows,
                           .temperature = options_.temperature,
                           .iters = options_.iters,
                           .causal = causal_,
                           .noisy = f.training,
                           .noise = noise(f)});
  }

  // P [H, G, G] of one row by its definition, without logarithms. k: [H, G, b, P].
  Tensor matrix_reference(const Tensor& k, int64_t row, const Forward& f) const {
    const int64_t G = k.size(1);
    Tensor sums = k.sum(2);  // [H, G, P]
    if (causal_)
      sums = torch::cat({torch::zeros_like(sums.narrow(1, 0, 1)), sums.cumsum(1)}, 1).narrow(1, 0, G);
    Tensor x = torch::matmul(sums, sort_->weight.t()).narrow(2, 0, G);
    if (f.training) {
      x = x + gumbel_noise(noise_index(row, G), noise(f), x.scalar_type());
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

  // Names of the entries of P for the noise: row of the whole batch, head, i, j.
  Tensor noise_index(int64_t row, int64_t G) const {
    const Tensor h = torch::arange(heads_).view({-1, 1, 1}), i = torch::arange(G);
    return (((row * heads_ + h) * (1 << 20)) + i.view({1, G, 1})) * (1 << 20) + i;
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
