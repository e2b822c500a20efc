#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena.h"
#include "support/models.h"

namespace lra {
namespace {

// The counts are those of the arena's code, derived from its configurations.
TEST(LinformerTest, ParameterCountsAreThoseOfTheArena) {
  EXPECT_EQ(arena_parameters("linformer", kListOpsCode, {"k=16"}), 9'076'810);
  EXPECT_EQ(arena_parameters("linformer", kListOpsPaper, {"k=16"}), 20'175'466);
  EXPECT_EQ(arena_parameters("linformer", kTextCode1K, {"k=16"}), 3'550'786);
  EXPECT_EQ(arena_parameters("linformer", kTextCode4K, {"k=16"}), 3'742'786);
  EXPECT_EQ(arena_parameters("linformer", kTextPaper4K, {"k=16"}), 20'473'954);
  EXPECT_EQ(arena_parameters("linformer", kImageCode, {"k=16"}), 264'858);
  EXPECT_EQ(arena_parameters("linformer", pathfinder_sizes(1, 2, 32, 16, 32), {"k=16"}), 30'050);
}

TEST(LinformerTest, NoMoreThanAQuarterOfTheLongestInputIsKept) {
  ArenaSizes small = kListOpsCode;
  small.L = 99;  // 100 positions with CLS
  EXPECT_EQ(arena_parameters("linformer", small, {"k=256"}), arena_parameters("linformer", small, {"k=25"}));
  EXPECT_GT(arena_parameters("linformer", small, {"k=25"}), arena_parameters("linformer", small, {"k=24"}));
}

TEST(LinformerTest, PaddingChangesNothing) {
  const auto encoder = small_encoder(find_model("linformer"), small_config(), torch::kDouble);
  const Batch packed = random_batch({9, 40}, encoder->layout(true)),
              padded = random_batch({9, 40}, encoder->layout(false));
  EXPECT_TRUE(torch::allclose(encoder->forward(packed, {}), encoder->forward(padded, {}), 0, 1e-12));
}

}  // namespace
}  // namespace lra
