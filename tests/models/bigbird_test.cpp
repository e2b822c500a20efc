#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/pattern.h"

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

// seen[i][j]: query block i sees key block j, all of it; blocks of 5 positions, the last not full.
std::vector<std::vector<bool>> seen_blocks(int64_t G, int64_t layer, const std::string& yaml = "{block: 5}") {
  EncoderConfig c = small_config();
  c.heads = 1;
  const int64_t n = 5 * G - 2;
  const Tensor all = seen_by(bigbird(), c, yaml, n, layer);
  std::vector<std::vector<bool>> seen(static_cast<size_t>(G), std::vector<bool>(static_cast<size_t>(G)));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const bool here = all[i][j].item<bool>(), first = i % 5 == 0 && j % 5 == 0;
      if (first) seen[i / 5][j / 5] = here;
      EXPECT_EQ(here, seen[i / 5][j / 5]) << i << " " << j;
    }
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
      EXPECT_TRUE(seen[i][j] || !fixed) << i << " " << j;
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
