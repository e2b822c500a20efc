// The Transformer: "Attention Is All You Need" (Vaswani et al., 2017), in the pre-norm form of the Long Range
// Arena.
//
//   q, k, v = x W_q, x W_k, x W_v            [T, H, P] each, no bias
//   A = softmax(q kᵀ / √P)                    keys beyond a row's length left out
//   y = dropout(A) v W_o
//
// Time 2·H·L²·P, memory O(L) here (the weights are never stored).
//
// Differences: the paper is post-norm with √D-scaled embeddings; the arena's code is neither, and so are we.
// The arena's code masks by adding −1e10 and masks queries too, so that a padded query attends uniformly to
// everything; here padding is never attended to, and what padded queries give is never read.
#include "kernels/attention/attention.h"
#include "kernels/project/project.h"
#include "models/model.h"

namespace lra {
namespace {

class SelfAttention : public Mixer {
 public:
  SelfAttention(const EncoderConfig& c, int64_t index)
      : heads_(c.heads), dropout_(c.attention_dropout), site_(block_site(index, 0)) {
    const auto projection = [&](const char* name, int64_t in, int64_t out) {
      return register_module(
          name, std::make_shared<Linear>(in, out, Linear::Options{false, Init::xavier(in, out), {}}));
    };
    q_ = projection("q", c.width, c.qkv_width);
    k_ = projection("k", c.width, c.qkv_width);
    v_ = projection("v", c.width, c.qkv_width);
    o_ = projection("o", c.qkv_width, c.width);
  }

  Tensor forward(const Tensor& x, const Forward& f) const override {
    const Tensor projected = project(x, {q_->weight, k_->weight, v_->weight}, f.copies);
    return o_->product(attend(projected, f, attention), f);
  }
  Tensor forward_first(const Tensor& x, const Forward& f) const override {
    const int64_t B = f.rows.count, T = x.size(0);
    const Tensor q = q_->product(take_rows(x, f.first_positions()), f).view({B, heads_, -1});
    const Tensor kv = project(x, {k_->weight, v_->weight}, f.copies).view({T, 2, heads_, -1});
    return o_->product(attention_first({q, kv, f.rows, f.dropout(dropout_, site_)}).view({B, -1}), f);
  }
  Tensor reference(const Tensor& x, const Forward& f) const override {
    const Tensor projected = torch::cat({q_->reference(x), k_->reference(x), v_->reference(x)}, 1);
    return o_->reference(attend(projected, f, attention_reference));
  }

 private:
  // [T, 3·H·P] → [T, H·P]
  template <class Core>
  Tensor attend(const Tensor& projected, const Forward& f, const Core& core) const {
    const int64_t T = projected.size(0);
    return core(AttentionInput{projected.view({T, 3, heads_, -1}), f.rows, f.dropout(dropout_, site_)})
        .view({T, -1});
  }

  std::shared_ptr<Linear> q_, k_, v_, o_;
  int64_t heads_;
  double dropout_;
  uint64_t site_;
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
        .causal = false,
        .differences =
            "Pre-norm and unscaled embeddings as in the arena's code; padding is never attended to (there, "
            "padded "
            "queries attend uniformly to everything).",
    };
    return info;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions&, int64_t index) const override {
    return std::make_shared<StandardBlock>(c, index, "attention", std::make_shared<SelfAttention>(c, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> transformer(std::make_unique<Transformer>(), LRA_HERE);

}  // namespace
}  // namespace lra
