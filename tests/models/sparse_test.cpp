#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/pattern.h"

namespace lra {
namespace {

const Model& sparse() { return find_model("sparse"); }

TEST(SparseTest, ParameterCountsAreThoseOfTheArena) {
  for (const ArenaCount& a :
       {ArenaCount{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 8'948'746},
        ArenaCount{"CIFAR-10", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", 248'458},
        ArenaCount{"Pathfinder", 1, 8, 32, 16, 32, 256, 2, 1024, "mean", "sinusoidal", 13'666}}) {
    EXPECT_EQ(parameter_count(sparse(), a, *sparse().options()), a.parameters) << a.name;
  }
}

bool in_the_arena(int64_t q, int64_t k) {
  return k <= q && (k / 50 == q / 50 || k % 50 == 0 || k % 50 >= 40);
}

TEST(SparseTest, ThePatternIsThatOfTheArena) {
  EncoderConfig c = small_config();
  c.pooling = "mean";
  const Tensor seen = seen_by(sparse(), c, "{}", 170);
  for (int64_t q = 0; q < 170; ++q) {
    for (int64_t k = 0; k < 170; ++k) ASSERT_EQ(seen[q][k].item<bool>(), in_the_arena(q, k)) << q << " " << k;
  }
}

TEST(SparseTest, ClsIsOpenAndThePatternIsThatOfTheOthers) {
  const Tensor seen = seen_by(sparse(), small_config(), "{}", 120);
  for (int64_t q = 0; q < 120; ++q) {
    for (int64_t k = 0; k < 120; ++k) {
      ASSERT_EQ(seen[q][k].item<bool>(), q == 0 || k == 0 || in_the_arena(q - 1, k - 1)) << q << " " << k;
    }
  }
}

TEST(SparseTest, WithoutCausalityAllSummariesAreSeen) {
  EncoderConfig c = small_config();
  c.pooling = "mean";
  const Tensor seen = seen_by(sparse(), c, "{causal: false, block: 10, summary: 2}", 47);
  for (int64_t q = 0; q < 47; ++q) {
    for (int64_t k = 0; k < 47; ++k) {
      const bool expected = k / 10 == q / 10 || k % 10 == 0 || k % 10 >= 8;
      ASSERT_EQ(seen[q][k].item<bool>(), expected) << q << " " << k;
    }
  }
}

}  // namespace
}  // namespace lra
