// The Linear Transformer: "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention"
// (Katharopoulos et al., 2020).
//
//   φ(x) = elu(x) + 1
//   y_i = W_o [ Σ_j (φ(q_i)·φ(k_j)) v_j / (Σ_j φ(q_i)·φ(k_j) + 1e-6) ]       for each head; causal: j ≤ i
//       = W_o [ Sᵀ φ(q_i) / (z·φ(q_i) + 1e-6) ],   S = Σ_j φ(k_j) v_jᵀ,   z = Σ_j φ(k_j)
//
// Time 2·H·L·P², memory O(L) (S is P×P a head, whatever the length).
//
// Differences: none from the paper but the residual block around it. The arena's code lets padding into the
// sums; here a sum is over the positions of its row. There is no dropout on weights that are never formed.
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/project/project.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

class LinearAttention : public QkvMixer {
 public:
  LinearAttention(const EncoderConfig& c, int64_t index) : QkvMixer(c, index), causal_(c.causal) {}

  Tensor forward_first(const Tensor& x, const Forward& f) const override {
    const Tensor first = take_rows(x, f.first_positions());
    if (causal_) return forward(first, f.at_first_positions());  // it sees itself alone
    const Tensor q = q_->product(first, f).view({first.size(0), heads_, -1}),
                 kv = project(x, {k_->weight, v_->weight}, f.copies).view({x.size(0), 2, heads_, -1});
    return o_->product(linear_attention_first({q, kv, f.rows, FeatureMap::kElu}).flatten(1), f);
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    return linear_attention({qkv, f.rows, FeatureMap::kElu, {}, causal_});
  }
  Tensor mix_reference(const Row& row, const Forward&) const override {
    return linear_attention_reference({row.q, row.k, row.v, FeatureMap::kElu, {}, causal_});
  }

 private:
  bool causal_;
};

class LinearTransformer : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "linear",
        .title = "Linear Transformer",
        .paper =
            "Katharopoulos et al., Transformers are RNNs: Fast Autoregressive Transformers with Linear "
            "Attention, ICML 2020",
        .formula =
            "out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / (Σ_j φ(q_i)·φ(k_j) + 1e-6), φ(x) = elu(x) + 1; the sums "
            "S = Σ_j φ(k_j) v_jᵀ and z = Σ_j φ(k_j) are taken first",
        .cost = "time O(L), memory O(L)",
        .causal = true,
        .keeps_padding = true,
        .differences =
            "The arena's code lets padding into the sums; here a sum is over the positions of its "
            "row, unless model.padding=kept. No dropout on the weights, which are never formed (as in the "
            "arena's code).",
    };
    return info;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions&, int64_t index) const override {
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<LinearAttention>(c, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> linear(std::make_unique<LinearTransformer>(), LRA_HERE);

}  // namespace
}  // namespace lra
