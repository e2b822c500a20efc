// Sparse Transformer: "Generating Long Sequences with Sparse Transformers" (Child et al., 2019), the fixed
// pattern, in the merged form of the Long Range Arena: one pattern for all heads and layers.
//
// The row is cut into blocks of l positions; the summary positions of a block are its first and its last c:
//
//   A_ij = softmax over j ≤ i with  ⌊j/l⌋ = ⌊i/l⌋  or  j mod l = 0  or  j mod l ≥ l − c   of q_i·k_j / √P
//   y = dropout(A) v W_o                                                l = 50, c = 10
//
// With CLS pooling CLS sees all and is seen by all, and the pattern is that of the positions after it.
// `causal` off drops j ≤ i: every query sees its block and the summaries of the whole row.
//
// Time and memory: the query at i sees i·(1 + c)/l keys besides its block, so time is 2·H·L²·P·(1 + c)/(2·l);
// with l ≈ √L, as the paper has it, O(L√L). Memory O(L) here (the weights are never stored).
//
// Differences: the paper gives the two parts of the pattern to different heads or layers, l ≈ √L and only the
// last c as summaries; l, c and the first position are the arena's. Its code builds the dense L×L mask. In
// the encoder's causal form (`model.causal`) there is no open CLS.
#include "kernels/interval_attention/interval_blocks.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

struct SparseOptions : ModelOptions {
  int64_t block = 50, summary = 10;
  bool causal = true;
  void visit(Fields& f) override {
    f.integer("block", block, 1, 1 << 20, "positions of a block (l)");
    f.integer("summary", summary, 0, 1 << 20,
              "last positions of a block that later ones see (c), besides its first");
    f.flag("causal", causal, "a token sees no later one (CLS apart), as in the paper and the arena's code");
  }
};

class FixedPatternAttention : public QkvMixer {
 public:
  FixedPatternAttention(const EncoderConfig& c, const SparseOptions& o, int64_t index)
      : QkvMixer(c, index),
        block_(o.block),
        // A block may be all summary: then its first position is among the last c.
        tail_(std::min(o.summary, o.block - 1)),
        causal_(o.causal || c.causal),
        open_(c.cls() && !c.causal) {}

 protected:
  // The side keys of a row are its summaries, block after block, and, where the summaries of later blocks are
  // seen too, all of them again: those of all blocks but one are then an interval.
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const int64_t S = 1 + tail_, lead = open_ ? 1 : 0;
    const RowBlocks rows = row_blocks(f.rows, block_, lead);
    const Tensor last_length = rows.end - rows.start - (rows.used - 1) * block_;
    const Tensor total = ((rows.used - 1) * S + 1 + (last_length - (block_ - tail_)).clamp_min(0))
                             .clamp_min(0);  // [B, 1]: summaries of a row; 0 for a row of CLS alone
    SideKeys side;
    side.pitch = rows.count * S * (causal_ ? 1 : 2);
    side.at = summaries(f.rows, rows, total, side.pitch);

    const Tensor cls = (rows.start - lead).expand_as(rows.first);
    const Tensor row_side = (torch::arange(f.rows.count, f.rows.offsets.options()) * side.pitch).unsqueeze(1);
    const Tensor before = row_side + rows.index * S;
    IntervalBlocks blocks{.size = block_,
                          .first = rows.first,
                          .last = rows.last,
                          .slots = {{.column = 0, .width = lead},
                                    {.column = lead, .width = block_, .banded = causal_},
                                    {.column = lead + block_,
                                     .width = rows.count * S,
                                     .side = true,
                                     .growth = causal_ ? S : 0}},
                          .low = -block_};
    if (causal_) {
      blocks.begin = slot_table({cls, rows.first, row_side.expand_as(rows.first)});
      blocks.end = slot_table({cls + lead, rows.last, before});
    } else {
      const Tensor after = torch::minimum(before + S, row_side + total);
      blocks.begin = slot_table({cls, rows.first, after});
      blocks.end = slot_table({cls + lead, rows.last, before + total});
    }
    std::vector<IntervalBlocks> all = {blocks};
    if (open_) all.push_back(open_first(f.rows));
    return interval_attention(
               {.qkv = qkv, .rows = f.rows, .blocks = all, .dropout = weight_dropout(f), .side = side})
        .out;
  }

  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const int64_t lead = open_ ? 1 : 0, S = 1 + tail_, n = row.length - lead;
    const auto is_summary = [&](int64_t k) { return k % block_ == 0 || k % block_ >= block_ - tail_; };
    int64_t total = 0;
    for (int64_t k = 0; k < n; ++k) total += is_summary(k);
    const auto column = [&](int64_t, int64_t i, int64_t j) -> int64_t {
      if (open_ && i == 0) return j;
      if (open_ && j == 0) return 0;
      const int64_t q = i - lead, k = j - lead;
      if (causal_ && k > q) return -1;
      if (k / block_ == q / block_) return lead + k % block_;
      if (!is_summary(k)) return -1;
      const int64_t place = k / block_ * S + (k % block_ == 0 ? 0 : k % block_ - (block_ - tail_) + 1);
      const int64_t begin = causal_ ? 0 : std::min((q / block_ + 1) * S, total);
      return lead + block_ + (place >= begin ? place - begin : place + total - begin);
    };
    return dense_attention(row.q, row.k, row.v, column, weight_dropout(f), row.number);
  }

  int64_t first_reach() const override { return open_ ? 0 : -1; }

 private:
  // Positions of the summaries, int32 [B·pitch]; those beyond `total`, once or twice, are of no meaning.
  Tensor summaries(const Rows& all, const RowBlocks& rows, const Tensor& total, int64_t pitch) const {
    const int64_t S = 1 + tail_;
    const Tensor place = torch::arange(pitch, all.offsets.options()).unsqueeze(0);
    const Tensor once = torch::where(place >= total, place - total, place);  // [B, pitch]
    const Tensor block = torch::floor_divide(once, S), rest = once - block * S;
    const Tensor inside = torch::where(rest == 0, rest, rest + (block_ - S));
    return torch::minimum(rows.start + block * block_ + inside, rows.end - 1)
        .clamp_min(0)
        .to(torch::kInt)
        .flatten();
  }

  int64_t block_, tail_;
  bool causal_, open_;
};

class Sparse : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "sparse",
        .title = "Sparse Transformer",
        .paper = "Child et al., Generating Long Sequences with Sparse Transformers, 2019",
        .formula =
            "softmax(q kᵀ / √P) v over the earlier keys of the query's own block of l and the summary keys "
            "(first and last c) of all earlier blocks; CLS sees and is seen by all",
        .cost = "time O(L²·(1 + c)/2l), memory O(L)",
        .causal = true,
        .differences =
            "The arena's merged pattern: all heads and layers have both parts, l = 50 instead of √L, and a "
            "block's first position counts among its summaries. Nothing dense is built, as it is there.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<SparseOptions>(); }
  std::unique_ptr<ModelOptions> small_options() const override {
    auto o = std::make_unique<SparseOptions>();
    o->block = 9, o->summary = 3;
    return o;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& o, int64_t index) const override {
    const auto& options = dynamic_cast<const SparseOptions&>(o);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<FixedPatternAttention>(c, options, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> sparse(std::make_unique<Sparse>(), LRA_HERE);

}  // namespace
}  // namespace lra
