#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena.h"
#include "support/models.h"

namespace lra {
namespace {

// The counts are those of the arena's code, derived from its configurations.
TEST(LinearTransformerTest, ParameterCountsAreThoseOfTheArena) {
  EXPECT_EQ(arena_parameters("linear", kListOpsCode), 8'948'746);
  EXPECT_EQ(arena_parameters("linear", kListOpsPaper), 19'983'370);
  EXPECT_EQ(arena_parameters("linear", kTextCode1K), 3'486'722);
  EXPECT_EQ(arena_parameters("linear", kTextPaper4K), 20'089'858);
  EXPECT_EQ(arena_parameters("linear", kImageCode), 248'458);
  EXPECT_EQ(arena_parameters("linear", pathfinder_sizes(1, 2, 128, 64, 128)), 116'098);
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
