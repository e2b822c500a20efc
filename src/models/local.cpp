// Local attention, the arena's baseline: attention inside blocks of neighbours ("Long Range Arena", Tay et
// al., 2021, appendix B; the blocks of "Image Transformer", Parmar et al., 2018).
//
//   block(i) = ⌊i / b⌋                        b positions, the last block of a row shorter
//   A_ij = softmax over j with block(j) = block(i) of q_i·k_j / √P;   causal: and j ≤ i
//   y = dropout(A) v W_o
//
// Time 2·H·L·b·P, memory O(L).
//
// Nothing passes from block to block: with CLS pooling the answer is made of the first b − 1 tokens. That is
// the model, and what makes it a baseline; pooling `mean` reads all blocks.
//
// Differences: the arena's code reshapes to [b, L/b] and attends along the wrong axis, so that a "block" is
// every (L/b)-th token while the padding mask is cut into true blocks, and it counts up to b positions of
// added padding as keys. Here blocks are neighbours, and padding is never attended to.
#include "kernels/interval_attention/interval_blocks.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

struct LocalOptions : ModelOptions {
  int64_t block = 50;
  void visit(Fields& f) override {
    f.integer("block", block, 1, 1 << 20, "positions of a block (b); the arena has 50, for images 64");
  }
};

class LocalAttention : public QkvMixer {
 public:
  LocalAttention(const EncoderConfig& c, const LocalOptions& o, int64_t index)
      : QkvMixer(c, index), block_(o.block), causal_(c.causal) {}

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const int64_t size = std::min(block_, f.rows.longest);
    const RowBlocks rows = row_blocks(f.rows, size);
    IntervalBlocks blocks{.size = size,
                          .first = rows.first,
                          .last = rows.last,
                          .slots = {{.column = 0, .width = size, .banded = causal_}},
                          .begin = slot_table({rows.first}),
                          .end = slot_table({rows.last}),
                          .low = -size};
    return interval_attention({.qkv = qkv, .rows = f.rows, .blocks = {blocks}, .dropout = weight_dropout(f)})
        .out;
  }

  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const auto column = [&](int64_t, int64_t i, int64_t j) {
      return i / block_ == j / block_ && !(causal_ && j > i) ? j % block_ : -1;
    };
    return dense_attention(row.q, row.k, row.v, column, weight_dropout(f), row.number);
  }

  int64_t first_reach() const override { return causal_ ? 1 : block_; }

 private:
  int64_t block_;
  bool causal_;
};

class Local : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "local",
        .title = "Local attention",
        .paper =
            "Tay et al., Long Range Arena: A Benchmark for Efficient Transformers, ICLR 2021 (appendix B)",
        .formula = "softmax(q kᵀ / √P) v over the keys of the query's own block of b positions",
        .cost = "time O(L·b), memory O(L)",
        .causal = true,
        .differences =
            "Blocks are neighbours; the arena's code attends along the wrong axis, so that a block there is "
            "every (L/b)-th token under a mask of other tokens. With CLS pooling only the first block is "
            "read, "
            "as the paper's model would.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<LocalOptions>(); }
  std::unique_ptr<ModelOptions> small_options() const override {
    auto o = std::make_unique<LocalOptions>();
    o->block = 8;
    return o;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& o, int64_t index) const override {
    const auto& options = dynamic_cast<const LocalOptions&>(o);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<LocalAttention>(c, options, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> local(std::make_unique<Local>(), LRA_HERE);

}  // namespace
}  // namespace lra
