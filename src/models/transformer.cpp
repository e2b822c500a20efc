// The Transformer: "Attention Is All You Need" (Vaswani et al., 2017), in the pre-norm form of the Long Range
// Arena.
//
//   q, k, v = x W_q, x W_k, x W_v            [T, H, P] each, no bias
//   A = softmax(q kᵀ / √P)                    keys beyond a row's length left out; causal: also later ones
//   y = dropout(A) v W_o
//
// Time 2·H·L²·P, memory O(L) here (the weights are never stored, unless `attention: unfused` asks for it).
//
// Differences: the paper is post-norm with √D-scaled embeddings; the arena's code is neither, and so are we.
// The arena's code masks by adding −1e10 and masks queries too, so that a padded query attends uniformly to
// everything; here padding is never attended to, and what padded queries give is never read. `model.padding:
// kept` with `attention: unfused` does as that code does.
#include "kernels/attention/attention.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

struct TransformerOptions : ModelOptions {
  std::string attention = "fused";

  void visit(Fields& f) override {
    f.choice("attention", attention, {"fused", "unfused"},
             "unfused: operation by operation, with the L×L weights in memory; the same numbers, a baseline "
             "for lra bench");
  }
};

class SelfAttention : public QkvMixer {
 public:
  SelfAttention(const EncoderConfig& c, const TransformerOptions& o, int64_t index)
      : QkvMixer(c, index), causal_(c.causal), fused_(o.attention == "fused") {
    if (fused_ && c.keeps_padding()) {
      fail("config",
           "model.padding kept: the fused attention sees no padding. Set transformer.attention=unfused.");
    }
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const AttentionInput input{qkv, f.rows, weight_dropout(f), causal_, f.valid};
    return fused_ ? attention(input) : attention_unfused(input);
  }
  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const Tensor qkv = torch::stack({row.q, row.k, row.v}).permute({2, 0, 1, 3});  // [n, 3, H, P]
    Rows rows = lay_out({static_cast<int32_t>(row.length)}, true, row.number);
    Dropout dropout = weight_dropout(f);
    dropout.slots = rows.slots;
    return attention_reference({qkv, rows, dropout, causal_, row.valid}).transpose(0, 1);
  }
  int64_t first_reach() const override { return !fused_ ? -1 : causal_ ? 1 : 0; }

 private:
  bool causal_, fused_;
};

class Transformer : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "transformer",
        .title = "Transformer",
        .paper = "Vaswani et al., Attention Is All You Need, NeurIPS 2017",
        .formula = "softmax(q kᵀ / √P) v, pre-norm blocks",
        .cost = "time O(L²), memory O(L)",
        .causal = true,
        .keeps_padding = true,
        .differences =
            "Pre-norm and unscaled embeddings as in the arena's code; padding is never attended to. There, "
            "padded queries attend uniformly to everything; model.padding=kept with "
            "transformer.attention=unfused has it so.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<TransformerOptions>(); }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& options,
                               int64_t index) const override {
    const auto& mine = dynamic_cast<const TransformerOptions&>(options);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<SelfAttention>(c, mine, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> transformer(std::make_unique<Transformer>(), LRA_HERE);

}  // namespace
}  // namespace lra
