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
  for (const bool packed : {true, false}) {
    const EncoderConfig c = small_config();
    auto block = model().block(c, *model().options(), 0);
    initialize(*block, 3);
    block->to(torch::kDouble);
    Forward f;
    f.training = true;
    f.seed = 7;
    f.step = torch::full({1}, 5, torch::kLong);
    f.rows = lay_out({13, 1, 8}, packed);
    torch::manual_seed(5);
    const Tensor x =
        torch::randn({f.rows.positions, c.width}, torch::dtype(torch::kDouble).requires_grad(true));
    const Tensor valid = valid_positions(f.rows),
                 weights = valid * torch::randn({f.rows.positions, c.width}, torch::kDouble);

    const auto gradients = [&](const Tensor& y) {
      std::vector<Tensor> inputs = block->parameters();
      inputs.push_back(x);
      return torch::autograd::grad({(y * weights).sum()}, inputs);
    };
    const Tensor y = block->forward({x}, f).sum(), expected = block->reference(x, f);
    EXPECT_LT(((y - expected) * valid).abs().max().item<double>(), 1e-10);
    const auto ours = gradients(y), brute = gradients(expected);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours[i], brute[i], 1e-8, 1e-10))
          << "input " << i << (packed ? " packed" : "");
      EXPECT_TRUE(torch::isfinite(ours[i]).all().item<bool>());
    }
  }
}

// The last block of a model with CLS pooling computes the first position of each row alone.
TEST_P(ModelPropertyTest, FirstPositionsAloneEqualThoseOfTheWholeBlock) {
  const EncoderConfig c = small_config();
  auto block = model().block(c, *model().options(), 0);
  initialize(*block, 3);
  block->to(torch::kDouble);
  for (const bool packed : {true, false}) {
    Forward f;
    f.training = true;
    f.step = torch::full({1}, 5, torch::kLong);
    f.rows = lay_out({13, 1, 8}, packed);
    torch::manual_seed(6);
    const Tensor x =
        torch::randn({f.rows.positions, c.width}, torch::dtype(torch::kDouble).requires_grad(true));
    const Tensor weights = torch::randn({3, c.width}, torch::kDouble);
    const auto gradients = [&](const Tensor& y) {
      std::vector<Tensor> inputs = block->parameters();
      inputs.push_back(x);
      return torch::autograd::grad({(y * weights).sum()}, inputs);
    };
    const Tensor first = block->forward_first({x}, f).sum(),
                 whole = block->reference(x, f).index_select(0, f.first_positions());
    EXPECT_TRUE(torch::allclose(first, whole, 0, 1e-10));
    const auto ours = gradients(first), brute = gradients(whole);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours[i], brute[i], 1e-8, 1e-10))
          << "input " << i << (packed ? " packed" : "");
    }
  }
}

// Losses and gradients of whole models, dropout included.
TEST_P(ModelPropertyTest, PackedAndPaddedGiveTheSameLossAndGradients) {
  for (const char* pooling : {"cls", "mean"}) {
    EncoderConfig c = small_config();
    c.pooling = pooling;
    auto encoder = small_encoder(model(), c, torch::kDouble);
    const auto results = [&](bool packed) {
      const Batch batch = random_batch({9, 4, 20}, encoder->layout(packed));
      Forward f;
      f.training = true;
      f.step = torch::full({1}, 5, torch::kLong);
      const Tensor loss = torch::cross_entropy_loss(encoder->forward(batch, f), batch.labels);
      auto out = torch::autograd::grad({loss}, encoder->parameters());
      out.push_back(loss.detach());
      return out;
    };
    const auto packed = results(true), padded = results(false);
    for (size_t i = 0; i < packed.size(); ++i) {
      EXPECT_TRUE(torch::allclose(packed[i], padded[i], 0, 1e-10)) << pooling << " " << i;
    }
  }
}

TEST_P(ModelPropertyTest, ARowDoesNotSeeItsNeighbours) {
  auto encoder = small_encoder(model(), small_config(), torch::kDouble);
  const Batch both = random_batch({9, 14});
  Batch first;
  first.rows = 1;
  first.input = {both.input.tokens.narrow(0, 0, 10).contiguous(), lay_out({10}, true)};
  first.labels = both.labels.narrow(0, 0, 1);
  EXPECT_TRUE(
      torch::allclose(encoder->forward(both, {}).narrow(0, 0, 1), encoder->forward(first, {}), 0, 1e-10));
}

TEST_P(ModelPropertyTest, WorksWithOneTokenAndWithAllTokensEqual) {
  auto encoder = small_encoder(model(), small_config());
  Batch batch = random_batch({1, 20});
  batch.input.tokens.masked_fill_(batch.input.tokens < 17, 2);
  EXPECT_TRUE(torch::isfinite(encoder->forward(batch, {})).all().item<bool>());
}

TEST_P(ModelPropertyTest, OverfitsEightSamples) {
  EncoderConfig c = small_config();
  c.dropout = c.attention_dropout = 0;
  auto encoder = small_encoder(model(), c);
  TrainState state = make_train_state(*encoder, torch::kCPU, torch::kFloat, torch::kFloat);
  OptimizerConfig optimizer;
  optimizer.weight_decay = 0;
  auto engine = make_engine(EngineKind::kEager, *encoder, state, optimizer, {"constant", 3e-3, 10, 300}, 0);
  const Batch batch = random_batch({20, 13, 17, 5, 20, 11, 8, 16});
  FixedSource source({batch});
  for (int step = 0; step < 300; ++step) engine->step(source);
  const Tensor predictions = encoder->forward(batch, {}).argmax(1);
  EXPECT_TRUE(torch::equal(predictions, batch.labels));
}

TEST_P(ModelPropertyTest, SavedAndLoadedGivesTheSameBits) {
  const TempDir dir;
  auto first = small_encoder(model(), small_config(), torch::kFloat, 1);
  auto second = small_encoder(model(), small_config(), torch::kFloat, 2);
  const auto all = [](const std::string&) { return true; };
  FlatState from(*first, torch::kCPU, torch::kFloat, all), to(*second, torch::kCPU, torch::kFloat, all);
  std::vector<NamedTensor> tensors;
  from.describe(from.parameters, "", tensors);
  save_checkpoint(dir.path(), "last", tensors, {}, Json{{"step", 1}});
  to.load_model(open_checkpoint(dir.path(), "last").model);
  const Batch batch = random_batch({12, 20});
  EXPECT_TRUE(torch::equal(first->forward(batch, {}), second->forward(batch, {})));
}

INSTANTIATE_TEST_SUITE_P(Registry, ModelPropertyTest, testing::ValuesIn(Registry<Model>::instance().names()));

}  // namespace
}  // namespace lra
