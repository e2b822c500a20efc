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
#include "models/model.h"
#include "nn/head_mixer.h"

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

class FavorAttention : public HeadMixer {
 public:
  FavorAttention(const EncoderConfig& c, const PerformerOptions& options, int64_t index)
      : HeadMixer(c), options_(options), causal_(c.causal), site_(block_site(index, 4)) {}

  Tensor forward(const Tensor& x, const Forward& f) const override {
    return output(linear_attention({queries_keys_values(x, f), f.rows, map(), directions(x, f), causal_}), f);
  }
  Tensor forward_first(const Tensor& x, const Forward& f) const override {
    const Tensor first = take_rows(x, f.first_positions());
    if (causal_) return forward(first, f.at_first_positions());  // it sees itself alone
    return output(
        linear_attention_first({queries(first, f), keys_values(x, f), f.rows, map(), directions(x, f)}), f);
  }
  Tensor reference(const Tensor& x, const Forward& f) const override {
    return output_reference(linear_attention_reference(
        {queries_keys_values_reference(x), f.rows, map(), directions(x, f), causal_}));
  }

 private:
  FeatureMap map() const { return options_.kernel == "relu" ? FeatureMap::kRelu : FeatureMap::kSoftmax; }
  Tensor directions(const Tensor& x, const Forward& f) const {  // [M, P]
    if (map() != FeatureMap::kSoftmax) return {};
    return orthogonal_features(
        {options_.features, width_, site_, f.seed, f.training ? f.step : Tensor(), options_.redraw},
        x.device());
  }

  PerformerOptions options_;
  bool causal_;
  uint64_t site_;
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
        .differences =
            "The arena's code lets padding into the sums and adds 1e-6 to every softmax feature; here "
            "a sum is over the positions of its row and the largest exponents are taken out instead. "
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
