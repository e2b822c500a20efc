#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"

namespace lra {
namespace {

const Model& longformer() { return find_model("longformer"); }

std::unique_ptr<ModelOptions> options(const std::string& yaml) {
  auto o = longformer().options();
  const ConfigTree tree = parse_yaml(yaml, "test");
  ConfigReader reader(tree);
  o->visit(reader);
  return o;
}

TEST(LongformerTest, ParameterCountsAreThoseOfTheArena) {
  for (const ArenaCount& a :
       {ArenaCount{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 12'094'474},
        ArenaCount{"ListOps, paper", 6, 8, 512, 512, 2048, 17, 10, 2000, "cls", "sinusoidal", 24'701'962},
        ArenaCount{"Text", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 4'273'154}}) {
    EXPECT_EQ(parameter_count(longformer(), a, *longformer().options()), a.parameters) << a.name;
  }
}

// The arena's code makes the global projections on CIFAR-10 too, where nothing uses them.
TEST(LongformerTest, WithoutAGlobalTokenItsProjectionsAreNotMade) {
  const ArenaCount cifar{"CIFAR-10", 4, 4, 128, 64, 128, 256, 10, 1024, "mean", "learned", 545'418};
  EXPECT_EQ(parameter_count(longformer(), cifar, *longformer().options()),
            cifar.parameters - 4 * 3 * 128 * 64);
}

// Which outputs of a block of 40 positions move with position `at`.
std::vector<bool> moved(const std::string& yaml, int64_t at) {
  EncoderConfig c = small_config();
  const auto block = longformer().block(c, *options(yaml), 0);
  initialize(*block, 3);
  block->to(torch::kDouble);
  Forward f;
  f.rows = lay_out({40}, true);
  torch::manual_seed(1);
  const Tensor x = torch::randn({40, c.width}, torch::kDouble), y = block->forward({x}, f).sum();
  Tensor changed = x.clone();
  changed[at] += 1;
  const Tensor d = (block->forward({changed}, f).sum() - y).abs().amax(1);
  std::vector<bool> out;
  for (int64_t i = 0; i < 40; ++i) out.push_back(d[i].item<double>() > 0);
  return out;
}

TEST(LongformerTest, AnEvenWindowReachesOneFurtherToTheRight) {
  const auto seen = moved("{window: 8}", 20);
  for (int64_t i = 1; i < 40; ++i) EXPECT_EQ(seen[i], 20 - i >= -3 && 20 - i <= 4) << i;
}

TEST(LongformerTest, ClsSeesAndIsSeenByAll) {
  EXPECT_TRUE(moved("{window: 8}", 39)[0]);
  for (const bool seen : moved("{window: 8}", 0)) EXPECT_TRUE(seen);
}

TEST(LongformerTest, WithoutAGlobalTokenClsIsAPositionLikeAnyOther) {
  EXPECT_FALSE(moved("{window: 8, global_cls: false}", 39)[0]);
  EXPECT_TRUE(moved("{window: 8, global_cls: false}", 4)[0]);
  EXPECT_FALSE(moved("{window: 8, global_cls: false}", 5)[0]);
}

}  // namespace
}  // namespace lra
