#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/portable.h"
#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"
#include "support/pattern.h"

namespace lra {
namespace {

void expect_count(const std::string& options, const ArenaCount& arena) {
  const Model& model = find_model("synthesizer");
  EXPECT_EQ(parameter_count(model, arena, *options_of(model, options)), arena.parameters) << arena.name;
}

// The counts are those of the arena's code, derived from its configurations. A table of Text's 4000 bytes
// would be 256 million numbers.
TEST(SynthesizerTest, ParameterCountsAreThoseOfTheArena) {
  expect_count("{mode: fact_random+vanilla}",
               {"ListOps, released", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 13'046'794});
  expect_count("{mode: fact_random}",
               {"Text 1K, released", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 3'987'458});
  expect_count("{mode: fact_random}",
               {"Text 4K, released", 4, 4, 256, 256, 1024, 257, 2, 4000, "cls", "sinusoidal", 7'059'458});
  expect_count("{mode: random+vanilla}",
               {"Text 1K, released", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 19'518'738});
  expect_count("{mode: random+vanilla}",
               {"CIFAR-10, released", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", 8'653'458});
  expect_count("{mode: random+vanilla}",
               {"Pathfinder", 2, 4, 64, 32, 64, 256, 2, 1024, "mean", "sinusoidal", 8'442'946});
}

struct Case {
  const char* mode;
  bool causal, portable;
};

class SynthesizerModeTest : public testing::TestWithParam<Case> {
 protected:
  std::shared_ptr<Block> block() const {
    EncoderConfig c = small_config();
    c.causal = GetParam().causal;
    if (c.causal) c.pooling = "mean";
    if (GetParam().portable) c.attention_dropout = 0;  // drawn by the library there
    const Model& model = find_model("synthesizer");
    const auto options = options_of(model, std::string("{mode: ") + GetParam().mode + "}");
    const auto made = model.block(c, *options, 0);
    EXPECT_EQ(count(*made), model.block_parameters(c, *options));
    initialize(*made, 3);
    made->to(torch::kDouble);
    return made;
  }
  static int64_t count(const Block& block) {
    int64_t n = 0;
    for (const auto& p : block.parameters()) n += p.numel();
    return n;
  }
};

TEST_P(SynthesizerModeTest, BlockAndGradientsEqualTheBruteForce) {
  const auto layer = block();
  std::optional<PortablePath> path;
  if (GetParam().portable) path.emplace();
  for (const bool packed : {true, false}) {
    Forward f;
    f.training = true;
    f.seed = 7;
    f.step = torch::full({1}, 5, torch::kLong);
    f.rows = lay_out({13, 1, 8}, packed);
    torch::manual_seed(5);
    const Tensor x = torch::randn({f.rows.positions, 16}, torch::kDouble).requires_grad_(true);
    const Tensor weights = valid_positions(f.rows) * torch::randn({f.rows.positions, 16}, torch::kDouble);
    const auto gradients = [&](const Tensor& y, const Tensor& w) {
      std::vector<Tensor> inputs = layer->parameters();
      inputs.push_back(x);
      return torch::autograd::grad({(y * w).sum()}, inputs);
    };
    const Tensor y = layer->forward({x}, f).sum(), expected = layer->reference(x, f);
    EXPECT_LT(((y - expected) * valid_positions(f.rows)).abs().max().item<double>(), 1e-10);
    const auto ours = gradients(y, weights), brute = gradients(expected, weights);
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(torch::allclose(ours[i], brute[i], 1e-8, 1e-10)) << i;

    const Tensor few = torch::randn({3, 16}, torch::kDouble);
    const Tensor first = layer->forward_first({x}, f).sum(),
                 whole = layer->reference(x, f).index_select(0, f.first_positions());
    EXPECT_TRUE(torch::allclose(first, whole, 0, 1e-10));
    const auto first_ours = gradients(first, few), first_brute = gradients(whole, few);
    for (size_t i = 0; i < first_ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(first_ours[i], first_brute[i], 1e-8, 1e-10)) << i;
    }
  }
}

TEST_P(SynthesizerModeTest, OnlyTheCausalFormDoesNotSeeTheFuture) {
  const auto layer = block();
  std::optional<PortablePath> path;
  if (GetParam().portable) path.emplace();
  Forward f;
  f.rows = lay_out({40}, true);
  torch::manual_seed(1);
  const Tensor x = torch::randn({40, 16}, torch::kDouble);
  Tensor changed = x.clone();
  changed.narrow(0, 30, 10).normal_();
  const Tensor difference = (layer->forward({x}, f).sum() - layer->forward({changed}, f).sum()).abs();
  const double before = difference.narrow(0, 0, 30).max().item<double>();
  EXPECT_GT(difference.narrow(0, 30, 10).max().item<double>(), 1e-3);
  EXPECT_EQ(before < 1e-12, GetParam().causal) << before;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* mode :
       {"random", "fact_random", "dense", "random+vanilla", "fact_random+vanilla", "dense+vanilla"}) {
    for (const bool causal : {false, true}) {
      for (const bool portable : {false, true}) all.push_back({mode, causal, portable});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Modes, SynthesizerModeTest, testing::ValuesIn(cases()));

}  // namespace
}  // namespace lra
