#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"

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
  EncoderConfig c = small_config();
  const auto block = local().block(c, *local().small_options(), 0);  // blocks of 8
  initialize(*block, 3);
  block->to(torch::kDouble);
  Forward f;
  f.rows = lay_out({30}, true);
  const Tensor x = torch::randn({30, c.width}, torch::kDouble), y = block->forward({x}, f).sum();
  Tensor changed = x.clone();
  changed[10] += 1;
  const Tensor moved = (block->forward({changed}, f).sum() - y).abs().amax(1);
  for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(moved[i].item<double>() > 0, i / 8 == 1) << i;
}

}  // namespace
}  // namespace lra
