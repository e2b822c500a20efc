// The Performer: "Rethinking Attention with Performers" (Choromanski et al., 2021).
//
//   out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j)                     for each head; causal: j ≤ i
//   softmax (FAVOR+):  φ(x)_m = exp(ω_m·c x − ‖c x‖²/2),  c = P^(−1/4),  M random ω, orthogonal in blocks of
//   P relu:              φ(x) = relu(x) + 1e-3 y = out W_o
//
// The mean of φ(q)·φ(k) over ω is exp(q·k/√P): the first kernel estimates the Transformer's attention, with
// an error that falls as M^(−1/2). Time 2·H·L·M·P, memory O(L).
//
// ω is drawn anew every `redraw` steps, from (seed, block, step / redraw) alone, and shared by heads and
// rows; an evaluation always uses the same draw.
//
// Differences: the arena's code lets padding into the sums; it uses the relu kernel except on ListOps (there
// softmax with 2 features and a draw at every call); it adds 1e-6 to every softmax feature against division
// by zero, where here the largest exponents are taken out so that nothing can vanish (linear_attention.h).
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/orthogonal_features/orthogonal_features.h"
#include "kernels/project/project.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

struct PerformerOptions : ModelOptions {
  std::string kernel = "softmax";
  int64_t features = 256, redraw = 1000;

  void visit(Fields& f) override {
    f.choice("kernel", kernel, {"softmax", "relu"}, "random features of the softmax, or relu(x) + 1e-3");
    f.integer("features", features, 1, 1 << 16, "random features of the softmax kernel (M)");
    f.integer("redraw", redraw, 1, 1'000'000'000, "training steps that share one draw of the features");
  }
};

class FavorAttention : public QkvMixer {
 public:
  FavorAttention(const EncoderConfig& c, const PerformerOptions& options, int64_t index)
      : QkvMixer(c, index), options_(options), causal_(c.causal), feature_site_(block_site(index, 4)) {}

  Tensor forward_first(const Tensor& x, const Forward& f) const override {
    const Tensor first = take_rows(x, f.first_positions());
    if (causal_) return forward(first, f.at_first_positions());  // it sees itself alone
    const Tensor q = q_->product(first, f).view({first.size(0), heads_, -1}),
                 kv = project(x, {k_->weight, v_->weight}, f.copies).view({x.size(0), 2, heads_, -1});
    return o_->product(linear_attention_first({q, kv, f.rows, map(), directions(q, f)}).flatten(1), f);
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    return linear_attention({qkv, f.rows, map(), directions(qkv, f), causal_});
  }
  Tensor mix_reference(const Row& row, const Forward& f) const override {
    return linear_attention_reference({row.q, row.k, row.v, map(), directions(row.q, f), causal_});
  }

 private:
  FeatureMap map() const { return options_.kernel == "relu" ? FeatureMap::kRelu : FeatureMap::kSoftmax; }
  Tensor directions(const Tensor& heads, const Forward& f) const {  // heads: […, P] → [M, P]
    if (map() != FeatureMap::kSoftmax) return {};
    return orthogonal_features({options_.features, heads.size(-1), feature_site_, f.seed,
                                f.training ? f.step : Tensor(), options_.redraw},
                               heads.device());
  }

  PerformerOptions options_;
  bool causal_;
  uint64_t feature_site_;
};

class Performer : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "performer",
        .title = "Performer",
        .paper = "Choromanski et al., Rethinking Attention with Performers, ICLR 2021",
        .formula =
            "out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x)_m = exp(ω_m·c x − ‖c x‖²/2) with "
            "c = P^(−1/4) and M orthogonal random ω (FAVOR+), or φ(x) = relu(x) + 1e-3",
        .cost = "time O(L·M), memory O(L)",
        .causal = true,
        .keeps_padding = true,
        .differences =
            "The arena's code lets padding into the sums and adds 1e-6 to every softmax feature; here "
            "a sum is over the positions of its row (with model.padding=kept: padding, too) and the largest "
            "exponents are taken out instead. "
            "Released were the relu kernel and, on ListOps, 2 softmax features drawn at every call. "
            "No dropout on the weights, which are never formed (as in the arena's code).",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<PerformerOptions>(); }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& options,
                               int64_t index) const override {
    const auto& own = dynamic_cast<const PerformerOptions&>(options);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<FavorAttention>(c, own, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> performer(std::make_unique<Performer>(), LRA_HERE);

}  // namespace
}  // namespace lra
