#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"
#include "support/pattern.h"

namespace lra {
namespace {

void expect_count(const std::string& options, const ArenaCount& arena) {
  const Model& model = find_model("linear");
  EXPECT_EQ(parameter_count(model, arena, *options_of(model, options)), arena.parameters) << arena.name;
}

// The counts are those of the arena's code, derived from its configurations.
TEST(LinearTransformerTest, ParameterCountsAreThoseOfTheArena) {
  expect_count("{}",
               {"ListOps, released", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 8'948'746});
  expect_count("{}", {"ListOps, paper", 6, 8, 512, 512, 2048, 17, 10, 2000, "cls", "sinusoidal", 19'983'370});
  expect_count("{}",
               {"Text 1K, released", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 3'486'722});
  expect_count("{}", {"Text 4K, paper", 6, 8, 512, 512, 2048, 257, 2, 4000, "cls", "sinusoidal", 20'089'858});
  expect_count("{}", {"CIFAR-10, released", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", 248'458});
  expect_count("{}", {"Pathfinder", 1, 2, 128, 64, 128, 256, 2, 1024, "mean", "sinusoidal", 116'098});
}

TEST(LinearTransformerTest, WithoutPositionsTheOrderOfTokensDoesNotMatter) {
  EncoderConfig c = small_config();
  c.positions = "none";
  c.pooling = "mean";
  const auto encoder = small_encoder(find_model("linear"), c, torch::kDouble);
  Batch batch = random_batch({12}, encoder->layout());
  const Tensor logits = encoder->forward(batch, {});
  batch.input.tokens = batch.input.tokens.flip({0});
  EXPECT_TRUE(torch::allclose(logits, encoder->forward(batch, {}), 0, 1e-12));
}

TEST(LinearTransformerTest, InItsCausalFormNoPositionSeesALaterOne) {
  EncoderConfig c = small_config();
  c.causal = true;
  c.pooling = "mean";
  const Model& model = find_model("linear");
  const auto block = model.block(c, *model.options(), 0);
  initialize(*block, 3);
  block->to(torch::kDouble);
  Forward f;
  f.rows = lay_out({100}, true);
  torch::manual_seed(1);
  const Tensor x = torch::randn({100, c.width}, torch::kDouble);
  Tensor changed = x.clone();
  changed.narrow(0, 70, 30).normal_();
  const Tensor difference = (block->forward({x}, f).sum() - block->forward({changed}, f).sum()).abs();
  EXPECT_LT(difference.narrow(0, 0, 70).max().item<double>(), 1e-12);
  EXPECT_GT(difference.narrow(0, 70, 30).max().item<double>(), 1e-3);
}

}  // namespace
}  // namespace lra
