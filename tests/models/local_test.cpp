#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/pattern.h"

namespace lra {
namespace {

const Model& local() { return find_model("local"); }

TEST(LocalTest, ParameterCountsAreThoseOfTheArena) {
  for (const ArenaCount& a :
       {ArenaCount{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 8'948'746},
        ArenaCount{"CIFAR-10", 1, 2, 128, 64, 128, 256, 10, 1024, "mean", "learned", 248'202},
        ArenaCount{"Pathfinder", 2, 4, 64, 32, 64, 256, 2, 1024, "mean", "sinusoidal", 54'338}}) {
    EXPECT_EQ(parameter_count(local(), a, *local().options()), a.parameters) << a.name;
  }
}

// What the arena's code gets wrong: there a token sees every (L/b)-th one.
TEST(LocalTest, ATokenSeesItsOwnBlockAndNoOther) {
  const Tensor seen = seen_by(local(), small_config(), "{block: 8}", 30);
  for (int64_t i = 0; i < 30; ++i) {
    for (int64_t j = 0; j < 30; ++j) ASSERT_EQ(seen[i][j].item<bool>(), i / 8 == j / 8) << i << " " << j;
  }
}

}  // namespace
}  // namespace lra
