#include <gtest/gtest.h>

#include "kernels/attention/attention.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/orthogonal_features/orthogonal_features.h"
#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"
#include "support/pattern.h"

namespace lra {
namespace {

void expect_count(const std::string& options, const ArenaCount& arena) {
  const Model& model = find_model("performer");
  EXPECT_EQ(parameter_count(model, arena, *options_of(model, options)), arena.parameters) << arena.name;
}

// The counts are those of the arena's code, derived from its configurations; the last is the maintainers'
// configuration for Pathfinder.
TEST(PerformerTest, ParameterCountsAreThoseOfTheArena) {
  expect_count("{features: 2}",
               {"ListOps, released", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 8'948'746});
  expect_count("{}", {"ListOps, paper", 6, 8, 512, 512, 2048, 17, 10, 2000, "cls", "sinusoidal", 19'983'370});
  expect_count("{kernel: relu}",
               {"Text 1K, released", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 3'486'722});
  expect_count("{kernel: relu}",
               {"CIFAR-10, released", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", 248'458});
  expect_count("{}", {"Pathfinder", 4, 8, 32, 16, 32, 256, 2, 1024, "mean", "sinusoidal", 26'530});
  expect_count("{}", {"Pathfinder", 1, 8, 128, 64, 128, 256, 2, 1024, "mean", "sinusoidal", 116'098});
}

// Root mean square error against the softmax, over draws.
double softmax_error(int64_t features, const AttentionInput& in, const Tensor& exact) {
  double sum = 0;
  constexpr int kDraws = 30;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Tensor omega = orthogonal_features(
        {features, in.qkv.size(3), 1, 2, torch::full({1}, draw, torch::kLong), 1}, torch::kCPU);
    sum += (linear_attention({in.qkv, in.rows, FeatureMap::kSoftmax, omega}) - exact)
               .square()
               .mean()
               .item<double>();
  }
  return std::sqrt(sum / kDraws);
}

TEST(PerformerTest, TheErrorOfItsSoftmaxFallsAsTheRootOfTheNumberOfFeatures) {
  torch::manual_seed(3);
  // Short queries and keys: the variance of an estimate is of the order of exp(‖c q + c k‖²) / M.
  Tensor qkv = torch::randn({60, 3, 2, 8}, torch::kDouble);
  qkv.narrow(1, 0, 2).mul_(0.5);
  const AttentionInput in{qkv, lay_out({60}, true), {}};
  const Tensor exact = attention_reference(in);
  const double few = softmax_error(64, in, exact), more = softmax_error(256, in, exact),
               many = softmax_error(1024, in, exact);
  EXPECT_LT(many, 0.1 * exact.square().mean().sqrt().item<double>());
  // Four times as many: half the error, as far as 30 draws can tell.
  EXPECT_NEAR(std::log2(few / more), 1, 0.25);
  EXPECT_NEAR(std::log2(more / many), 1, 0.25);
}

TEST(PerformerTest, TheReluKernelEqualsTheExplicitMatrix) {
  torch::manual_seed(4);
  const Tensor qkv = torch::randn({30, 3, 2, 8}, torch::kDouble);
  const auto x = qkv.permute({1, 2, 0, 3}).unbind(0);  // 3 × [H, L, P]
  const Tensor weights =
      torch::matmul(torch::relu(x[0]) + 1e-3, (torch::relu(x[1]) + 1e-3).transpose(1, 2));  // [H, L, L]
  const Tensor explicit_form = torch::matmul(weights / weights.sum(-1, true), x[2]).transpose(0, 1);
  EXPECT_TRUE(torch::allclose(linear_attention({qkv, lay_out({30}, true), FeatureMap::kRelu}), explicit_form,
                              0, 1e-12));
}

std::shared_ptr<Block> small_block(const char* kernel, bool causal, int64_t redraw = 1000) {
  EncoderConfig c = small_config();
  c.dropout = 0;
  c.causal = causal;
  const Model& model = find_model("performer");
  const auto options =
      options_of(model, std::string("{kernel: ") + kernel + ", redraw: " + std::to_string(redraw) + "}");
  const auto block = model.block(c, *options, 0);
  initialize(*block, 3);
  block->to(torch::kDouble);
  return block;
}

TEST(PerformerTest, InItsCausalFormNoPositionSeesALaterOne) {
  for (const char* kernel : {"softmax", "relu"}) {
    const auto block = small_block(kernel, true);
    Forward f;
    f.rows = lay_out({100}, true);
    torch::manual_seed(1);
    const Tensor x = torch::randn({100, 16}, torch::kDouble);
    Tensor changed = x.clone();
    changed.narrow(0, 70, 30).normal_();
    const Tensor difference = (block->forward({x}, f).sum() - block->forward({changed}, f).sum()).abs();
    EXPECT_LT(difference.narrow(0, 0, 70).max().item<double>(), 1e-12) << kernel;
    EXPECT_GT(difference.narrow(0, 70, 30).max().item<double>(), 1e-3) << kernel;
  }
}

TEST(PerformerTest, FeaturesAreRedrawnAtTheConfiguredStepsAndFixedInEvaluation) {
  const auto block = small_block("softmax", false, 10);
  torch::manual_seed(1);
  const Tensor x = torch::randn({20, 16}, torch::kDouble);
  const auto at = [&](bool training, int64_t step, uint64_t seed) {
    Forward f;
    f.rows = lay_out({20}, true);
    f.training = training;
    f.seed = seed;
    f.step = torch::full({1}, step, torch::kLong);
    return block->forward({x}, f).sum();
  };
  EXPECT_TRUE(torch::equal(at(true, 10, 1), at(true, 19, 1)));
  EXPECT_FALSE(torch::equal(at(true, 19, 1), at(true, 20, 1)));
  EXPECT_FALSE(torch::equal(at(true, 10, 1), at(true, 10, 2)));
  EXPECT_TRUE(torch::equal(at(false, 10, 1), at(false, 20, 2)));
}

}  // namespace
}  // namespace lra
