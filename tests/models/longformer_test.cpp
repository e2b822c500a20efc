#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/pattern.h"

namespace lra {
namespace {

const Model& longformer() { return find_model("longformer"); }

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

Tensor seen(const std::string& yaml) { return seen_by(longformer(), small_config(), yaml, 40); }

TEST(LongformerTest, AnEvenWindowReachesOneFurtherToTheRightAndClsSeesAll) {
  const Tensor all = seen("{window: 8}");
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 40; ++j) {
      const bool expected = i == 0 || j == 0 || (j - i >= -3 && j - i <= 4);
      ASSERT_EQ(all[i][j].item<bool>(), expected) << i << " " << j;
    }
  }
}

TEST(LongformerTest, WithoutAGlobalTokenClsIsAPositionLikeAnyOther) {
  const Tensor all = seen("{window: 9, global_cls: false}");
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 40; ++j) ASSERT_EQ(all[i][j].item<bool>(), std::abs(j - i) <= 4) << i << " " << j;
  }
}

}  // namespace
}  // namespace lra
