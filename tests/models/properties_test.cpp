// What every registered model must satisfy. A new model is covered the day its file is added; none is named
// here.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "batch/batch.h"
#include "models/model.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "train/step_engine.h"

namespace lra {
namespace {

class ModelPropertyTest : public testing::TestWithParam<std::string> {
 protected:
  const Model& model() const { return find_model(GetParam()); }
};

TEST_P(ModelPropertyTest, GivesOneRowOfLogitsForEachExample) {
  auto encoder = small_encoder(model(), small_config());
  EXPECT_EQ(encoder->forward(random_batch({5, 17, 1}), {}).sizes(), (std::vector<int64_t>{3, 10}));
}

TEST_P(ModelPropertyTest, ParameterCountEqualsItsFormula) {
  for (const char* pooling : {"cls", "mean"}) {
    for (const char* positions : {"sinusoidal", "learned"}) {
      EncoderConfig c = small_config();
      c.pooling = pooling;
      c.positions = positions;
      const auto options = model().options();
      const int64_t expected = shell_parameters(c) + c.layers * model().block_parameters(c, *options);
      EXPECT_EQ(small_encoder(model(), c)->parameter_count(), expected) << pooling << " " << positions;
    }
  }
}

TEST_P(ModelPropertyTest, BlockAndGradientsEqualTheBruteForceInDoublePrecision) {
  for (const bool padded : {false, true}) {
    const EncoderConfig c = small_config();
    auto block = model().block(c, *model().options(), 0);
    initialize(*block, 3);
    block->to(torch::kDouble);
    Forward f;
    f.training = true;
    f.key = {7, torch::full({1}, 5, torch::kLong), 0};
    if (padded) f.lengths = torch::tensor({13, 1, 8}, torch::kInt);
    torch::manual_seed(5);
    const Tensor x = torch::randn({3, 13, c.width}, torch::dtype(torch::kDouble).requires_grad(true));
    const Tensor weights = valid_positions(f.lengths, 3, 13) * torch::randn({3, 13, c.width}, torch::kDouble);

    const auto gradients = [&](const Tensor& y) {
      std::vector<Tensor> inputs = block->parameters();
      inputs.push_back(x);
      return torch::autograd::grad({(y * weights).sum()}, inputs);
    };
    const Tensor y = block->forward(x, f), expected = block->reference(x, f);
    EXPECT_LT(((y - expected) * valid_positions(f.lengths, 3, 13)).abs().max().item<double>(), 1e-10);
    const auto ours = gradients(y), brute = gradients(expected);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours[i], brute[i], 1e-8, 1e-10))
          << "input " << i << (padded ? " padded" : "");
      EXPECT_TRUE(torch::isfinite(ours[i]).all().item<bool>());
    }
  }
}

TEST_P(ModelPropertyTest, PaddingDoesNotChangeTheResult) {
  auto encoder = small_encoder(model(), small_config(), torch::kDouble);
  const Batch narrow = random_batch({9, 4});
  Batch wide = narrow;
  wide.input.tokens =
      torch::constant_pad_nd(narrow.input.tokens, {0, 6}, 3);  // whatever stands in the padding
  EXPECT_TRUE(torch::allclose(encoder->forward(narrow, {}), encoder->forward(wide, {}), 0, 1e-10));
}

TEST_P(ModelPropertyTest, ARowDoesNotSeeItsNeighbours) {
  auto encoder = small_encoder(model(), small_config(), torch::kDouble);
  const Batch both = random_batch({9, 14});
  Batch first;
  first.rows = 1;
  first.input = {both.input.tokens.narrow(0, 0, 1).narrow(1, 0, 9).contiguous(),
                 both.input.lengths.narrow(0, 0, 1), true};
  first.labels = both.labels.narrow(0, 0, 1);
  EXPECT_TRUE(
      torch::allclose(encoder->forward(both, {}).narrow(0, 0, 1), encoder->forward(first, {}), 0, 1e-10));
}

TEST_P(ModelPropertyTest, WorksWithOneTokenAndWithAllTokensEqual) {
  auto encoder = small_encoder(model(), small_config());
  Batch batch = random_batch({1, 20});
  batch.input.tokens.fill_(2);
  EXPECT_TRUE(torch::isfinite(encoder->forward(batch, {})).all().item<bool>());
}

TEST_P(ModelPropertyTest, OverfitsEightSamples) {
  EncoderConfig c = small_config();
  c.dropout = c.attention_dropout = 0;
  auto encoder = small_encoder(model(), c);
  TrainState state = make_train_state(*encoder, torch::kCPU, torch::kFloat);
  OptimizerConfig optimizer;
  optimizer.weight_decay = 0;
  auto engine = make_eager_engine(*encoder, state, optimizer, {"constant", 3e-3, 10, 300}, 0);
  const Batch batch = random_batch({20, 13, 17, 5, 20, 11, 8, 16});
  for (int step = 0; step < 300; ++step) engine->step({&batch, 1});
  const Tensor predictions = encoder->forward(batch, {}).argmax(1);
  EXPECT_TRUE(torch::equal(predictions, batch.labels));
}

TEST_P(ModelPropertyTest, SavedAndLoadedGivesTheSameBits) {
  const TempDir dir;
  auto first = small_encoder(model(), small_config(), torch::kFloat, 1);
  auto second = small_encoder(model(), small_config(), torch::kFloat, 2);
  const auto all = [](const std::string&) { return true; };
  FlatState from(*first, torch::kCPU, torch::kFloat, all), to(*second, torch::kCPU, torch::kFloat, all);
  std::vector<Tensor> storage;
  save_checkpoint(dir.path(), "last", from.model_tensors(storage), from.optimizer_tensors(storage),
                  Json{{"step", 1}});
  to.load_model(open_checkpoint(dir.path(), "last").model);
  const Batch batch = random_batch({12, 20});
  EXPECT_TRUE(torch::equal(first->forward(batch, {}), second->forward(batch, {})));
}

INSTANTIATE_TEST_SUITE_P(Registry, ModelPropertyTest, testing::ValuesIn(Registry<Model>::instance().names()));

}  // namespace
}  // namespace lra
