#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"
#include "support/pattern.h"

namespace lra {
namespace {

void expect_count(const std::string& options, const ArenaCount& arena) {
  const Model& model = find_model("linformer");
  EXPECT_EQ(parameter_count(model, arena, *options_of(model, options)), arena.parameters) << arena.name;
}

// The counts are those of the arena's code, derived from its configurations.
TEST(LinformerTest, ParameterCountsAreThoseOfTheArena) {
  expect_count("{k: 16}",
               {"ListOps, released", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 9'076'810});
  expect_count("{k: 16}",
               {"ListOps, paper", 6, 8, 512, 512, 2048, 17, 10, 2000, "cls", "sinusoidal", 20'175'466});
  expect_count("{k: 16}",
               {"Text 1K, released", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 3'550'786});
  expect_count("{k: 16}",
               {"Text 4K, released", 4, 4, 256, 256, 1024, 257, 2, 4000, "cls", "sinusoidal", 3'742'786});
  expect_count("{k: 16}",
               {"Text 4K, paper", 6, 8, 512, 512, 2048, 257, 2, 4000, "cls", "sinusoidal", 20'473'954});
  expect_count("{k: 16}",
               {"CIFAR-10, released", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", 264'858});
  expect_count("{k: 16}", {"Pathfinder", 1, 2, 32, 16, 32, 256, 2, 1024, "mean", "sinusoidal", 30'050});
}

TEST(LinformerTest, NoMoreThanAQuarterOfTheLongestInputIsKept) {
  const Model& model = find_model("linformer");
  EncoderConfig c = small_config();
  c.max_length = 99;  // 100 positions with CLS
  const auto parameters = [&](const std::string& options) {
    return model.block_parameters(c, *options_of(model, options));
  };
  EXPECT_EQ(parameters("{k: 256}"), parameters("{k: 25}"));
  EXPECT_EQ(parameters("{k: 25}"), parameters("{k: 24}") + 100);
}

TEST(LinformerTest, PaddingChangesNothing) {
  const auto encoder = small_encoder(find_model("linformer"), small_config(), torch::kDouble);
  const Batch packed = random_batch({9, 40}, encoder->layout(true)),
              padded = random_batch({9, 40}, encoder->layout(false));
  EXPECT_TRUE(torch::allclose(encoder->forward(packed, {}), encoder->forward(padded, {}), 0, 1e-12));
}

}  // namespace
}  // namespace lra
