// What every registered model must satisfy. A new model is covered the day its file is added; none is named
// here.
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "batch/batch.h"
#include "kernels/portable.h"
#include "models/model.h"
#include "support/error_text.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "train/step_engine.h"

namespace lra {
namespace {

class ModelPropertyTest : public testing::TestWithParam<std::string> {
 protected:
  const Model& model() const { return find_model(GetParam()); }
};

// Gradients; zero for what the output does not depend on, such as the queries of all but the first position.
std::vector<Tensor> gradients(const Tensor& y, const std::vector<Tensor>& inputs) {
  auto all = torch::autograd::grad({y}, inputs, {}, std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) all[i] = torch::zeros_like(inputs[i]);
  }
  return all;
}

// One block in double precision, in training, on random input.
struct BlockCase {
  EncoderConfig config;
  std::shared_ptr<Block> block;
  Forward f;
  Tensor x, valid;

  BlockCase(const Model& model, const EncoderConfig& c, const ModelOptions& options,
            const std::vector<int32_t>& lengths, bool packed)
      : config(c), block(model.block(c, options, 0)) {
    initialize(*block, 3);
    block->to(torch::kDouble);
    f.training = true;
    f.seed = 7;
    f.step = torch::full({1}, 5, torch::kLong);
    f.rows = lay_out(lengths, packed);
    torch::manual_seed(5);
    x = torch::randn({f.rows.positions, c.width}, torch::dtype(torch::kDouble).requires_grad(true));
    valid = valid_positions(f.rows);
  }

  void expect_equal_to_the_brute_force(const std::string& what) const {
    const Tensor weights = valid * torch::randn({f.rows.positions, config.width}, torch::kDouble);
    std::vector<Tensor> inputs = block->parameters();
    inputs.push_back(x);
    const Tensor y = block->forward({x}, f).sum(), expected = block->reference(x, f);
    EXPECT_LT(((y - expected) * valid).abs().max().item<double>(), 1e-10) << what;
    const auto ours = gradients((y * weights).sum(), inputs),
               brute = gradients((expected * weights).sum(), inputs);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours[i], brute[i], 1e-8, 1e-10)) << what << ", input " << i;
      EXPECT_TRUE(torch::isfinite(ours[i]).all().item<bool>()) << what << ", input " << i;
    }
  }
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
    BlockCase(model(), small_config(), *model().options(), {13, 1, 8}, packed)
        .expect_equal_to_the_brute_force(packed ? "packed" : "padded");
  }
}

// Rows that have several of whatever pieces a model cuts them into, with CLS and without; some of one length
// that end with a piece.
TEST_P(ModelPropertyTest, LongerRowsEqualTheBruteForce) {
  for (const char* pooling : {"cls", "mean"}) {
    for (const auto& lengths : {std::vector<int32_t>{70, 1, 33, 9}, {48, 48}, {49, 49}}) {
      EncoderConfig c = small_config();
      c.max_length = 80;
      c.pooling = pooling;
      BlockCase(model(), c, *model().small_options(), lengths, true).expect_equal_to_the_brute_force(pooling);
    }
  }
}

TEST_P(ModelPropertyTest, OtherDevicesComputeTheSame) {
  const PortablePath portable;
  for (const char* pooling : {"cls", "mean"}) {
    for (const bool packed : {true, false}) {
      EncoderConfig c = small_config();
      c.max_length = 80;
      c.pooling = pooling;
      BlockCase(model(), c, *model().small_options(), {33, 1, 70, 9}, packed)
          .expect_equal_to_the_brute_force(pooling);
    }
  }
}

// A model that has no causal form says so.
TEST_P(ModelPropertyTest, TheCausalFormEqualsItsBruteForceAndSeesNothingLater) {
  EncoderConfig c = small_config();
  c.max_length = 80;
  c.pooling = "mean";
  c.causal = true;
  if (!model().info().causal) {
    EXPECT_TRUE(says(error_text([&] { make_encoder(model(), c, *model().options(), 0); }), "no causal form"));
    return;
  }
  BlockCase block(model(), c, *model().small_options(), {70, 1, 33}, true);
  block.expect_equal_to_the_brute_force("causal");
  {
    const PortablePath portable;
    block.expect_equal_to_the_brute_force("causal, on other devices");
  }
  const torch::NoGradGuard no_grad;
  const Tensor y = block.block->forward({block.x}, block.f).sum();
  for (const int64_t cut : {1, 7, 29, 64, 69}) {
    Tensor changed = block.x.clone();
    changed.narrow(0, cut, 70 - cut).copy_(torch::randn({70 - cut, c.width}, torch::kDouble));
    const Tensor after = block.block->forward({changed}, block.f).sum();
    EXPECT_TRUE(torch::allclose(y.narrow(0, 0, cut), after.narrow(0, 0, cut), 0, 1e-12)) << cut;
    EXPECT_FALSE(torch::allclose(y[69], after[69], 0, 1e-6)) << cut;
  }
}

// The last block of a model with CLS pooling computes the first position of each row alone.
TEST_P(ModelPropertyTest, FirstPositionsAloneEqualThoseOfTheWholeBlock) {
  for (const bool packed : {true, false}) {
    EncoderConfig c = small_config();
    c.max_length = 80;
    const BlockCase with(model(), c, *model().small_options(), {13, 1, 8, 70}, packed);
    const Tensor weights = torch::randn({4, c.width}, torch::kDouble);
    std::vector<Tensor> inputs = with.block->parameters();
    inputs.push_back(with.x);
    const Tensor first = with.block->forward_first({with.x}, with.f).sum(),
                 whole = with.block->reference(with.x, with.f).index_select(0, with.f.first_positions());
    EXPECT_TRUE(torch::allclose(first, whole, 0, 1e-10));
    const auto ours = gradients((first * weights).sum(), inputs),
               brute = gradients((whole * weights).sum(), inputs);
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
      auto out = gradients(loss, encoder->parameters());
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

// The largest allocation and the most held at a time, of this thread.
class MemoryWatch : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    held_ += size;
    most = std::max(most, held_);
    largest = std::max(largest, size);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most = 0, largest = 0;

 private:
  int64_t held_ = 0;
};

// A forward and a backward pass over one row of c.max_length tokens.
MemoryWatch memory_of_a_step(const Model& model, EncoderConfig c) {
  c.pooling = "mean";
  auto encoder = small_encoder(model, c);
  const Batch batch = random_batch({static_cast<int32_t>(c.max_length)}, encoder->layout());
  Forward f;
  f.training = true;
  f.step = torch::zeros({1}, torch::kLong);
  auto watch = std::make_shared<MemoryWatch>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
  encoder->forward(batch, f).sum().backward();
  return *watch;
}

MemoryWatch memory_of_a_step(const Model& model, int64_t L) {
  EncoderConfig c = small_config();
  c.max_length = L;
  c.layers = 1;
  return memory_of_a_step(model, c);
}

// Unless its card says that memory is O(L²).
TEST_P(ModelPropertyTest, MemoryGrowsWithTheLengthAndNoLByLTensorIsMade) {
  if (model().info().cost.find("memory O(L²") != std::string::npos) GTEST_SKIP() << "quadratic by its card";
  const MemoryWatch small = memory_of_a_step(model(), 1024), large = memory_of_a_step(model(), 4096);
  EXPECT_LE(static_cast<double>(large.most), 4.4 * static_cast<double>(small.most));
  EXPECT_LT(large.largest, 4096 * 4096);  // bytes: not even as bool
}

TEST_P(ModelPropertyTest, KeepsLittleBesideItsUnavoidableActivations) {
  EncoderConfig c = small_config();
  c.layers = 4, c.width = c.qkv_width = 256, c.heads = 4, c.ff_width = 1024, c.max_length = 4096;
  const MemoryWatch watch = memory_of_a_step(model(), c);
  const auto unavoidable = static_cast<double>(c.layers * c.block_activations() * c.max_length * 4);
  EXPECT_LE(static_cast<double>(watch.most), 1.3 * unavoidable);
}

TEST_P(ModelPropertyTest, IsFiniteAtLength16384) {
  EncoderConfig c = small_config();
  c.max_length = 16384;
  const auto encoder = small_encoder(model(), c);
  const c10::InferenceMode inference;
  EXPECT_TRUE(torch::isfinite(encoder->forward(random_batch({16384}), {})).all().item<bool>());
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
  bool learned = false;
  for (int step = 0; step < 300 && !learned; ++step) {
    engine->step(source);
    learned = step % 20 == 19 && torch::equal(encoder->forward(batch, {}).argmax(1), batch.labels);
  }
  EXPECT_TRUE(learned);
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
