#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"

namespace lra {
namespace {

const Model& bigbird() { return find_model("bigbird"); }

TEST(BigBirdTest, ParameterCountsAreThoseOfTheArena) {
  for (const ArenaCount& a :
       {ArenaCount{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 8'948'746},
        ArenaCount{"Text", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 3'486'722},
        ArenaCount{"Pathfinder", 4, 2, 64, 32, 64, 256, 2, 1024, "mean", "sinusoidal", 87'874}}) {
    EXPECT_EQ(parameter_count(bigbird(), a, *bigbird().options()), a.parameters) << a.name;
  }
}

// seen[i][j]: query block i sees key block j, found by changing the keys and looking; blocks of 5 positions.
std::vector<std::vector<bool>> seen_blocks(int64_t G, int64_t layer, const std::string& yaml = "{block: 5}") {
  EncoderConfig c = small_config();
  c.heads = 1;
  c.max_length = 5 * G;
  auto options = bigbird().options();
  const ConfigTree tree = parse_yaml(yaml, "test");
  ConfigReader reader(tree);
  options->visit(reader);
  const auto block = bigbird().block(c, *options, layer);
  initialize(*block, 3);
  block->to(torch::kDouble);
  Forward f;
  const int64_t n = 5 * G - 2;  // the last block is not full
  f.rows = lay_out({static_cast<int32_t>(n)}, true);
  torch::manual_seed(1);
  const Tensor x = torch::randn({n, c.width}, torch::kDouble), y = block->forward({x}, f).sum();
  std::vector<std::vector<bool>> seen(static_cast<size_t>(G), std::vector<bool>(static_cast<size_t>(G)));
  for (int64_t j = 0; j < G; ++j) {
    Tensor changed = x.clone();
    changed[5 * j] += 1;
    const Tensor moved = (block->forward({changed}, f).sum() - y).abs().amax(1);
    // A position always depends on itself: look at the others of the block.
    for (int64_t i = 0; i < G; ++i) seen[i][j] = moved[5 * i + 1].item<double>() > 0;
  }
  return seen;
}

TEST(BigBirdTest, SeesItsNeighboursTheGlobalBlocksAndThreeOthers) {
  const int64_t G = 16;
  const auto seen = seen_blocks(G, 0);
  for (int64_t i = 0; i < G; ++i) {
    int64_t others = 0;
    for (int64_t j = 0; j < G; ++j) {
      const bool fixed = i == 0 || i == G - 1 || j == 0 || j == G - 1 || std::abs(i - j) <= 1;
      if (fixed) EXPECT_TRUE(seen[i][j]) << i << " " << j;
      others += !fixed && seen[i][j];
    }
    EXPECT_EQ(others, i == 0 || i == G - 1 ? 0 : 3) << i;
  }
}

TEST(BigBirdTest, RandomBlocksDifferFromLayerToLayerAndStayTheSame) {
  EXPECT_EQ(seen_blocks(16, 1), seen_blocks(16, 1));
  EXPECT_NE(seen_blocks(16, 1), seen_blocks(16, 2));
}

TEST(BigBirdTest, RandomBlocksCanBeKeptToTheFirstPositions) {
  const auto seen = seen_blocks(16, 0, "{block: 5, rand_limit: 40}");
  for (int64_t i = 1; i < 15; ++i) {
    for (int64_t j = 8; j < 15; ++j) EXPECT_EQ(seen[i][j], std::abs(i - j) <= 1) << i << " " << j;
  }
}

TEST(BigBirdTest, AShortRowSeesAllThatItHas) {
  for (const int64_t G : {1, 2, 3, 5}) {
    for (const auto& row : seen_blocks(G, 0)) {
      for (const bool seen : row) EXPECT_TRUE(seen) << G;
    }
  }
}

}  // namespace
}  // namespace lra
