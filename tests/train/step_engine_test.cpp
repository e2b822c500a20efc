#include "train/step_engine.h"

#include <gtest/gtest.h>

#include "support/models.h"

namespace lra {
namespace {

const Schedule kSchedule{"rsqrt", 0.05, 10, 100};

struct Rig {
  explicit Rig(torch::Dtype type = torch::kDouble, OptimizerConfig optimizer = {},
               EncoderConfig config = small_config())
      : encoder(small_encoder(find_model("transformer"), config, type)),
        state(make_train_state(*encoder, torch::kCPU, type, type)),
        engine(make_engine(EngineKind::kEager, *encoder, state, optimizer, kSchedule, 4)) {}
  void step(const std::vector<Batch>& batches) {
    FixedSource source(batches);
    engine->step(source);
  }
  std::shared_ptr<Encoder> encoder;
  TrainState state;
  std::unique_ptr<StepEngine> engine;
};

std::vector<Batch> split(const Batch& batch, int64_t parts) {
  std::vector<Batch> out;
  const int64_t rows = batch.rows / parts;
  const auto* lengths = batch.input.rows.lengths.const_data_ptr<int32_t>();
  const auto* offsets = batch.input.rows.offsets.const_data_ptr<int32_t>();
  for (int64_t p = 0; p < parts; ++p) {
    Batch part;
    part.rows = rows;
    part.input.rows = lay_out({lengths + p * rows, lengths + (p + 1) * rows}, true, p * rows);
    part.input.tokens = batch.input.tokens.narrow(0, offsets[p * rows], part.input.rows.positions);
    part.labels = batch.labels.narrow(0, p * rows, rows);
    out.push_back(part);
  }
  return out;
}

TEST(StepEngineTest, MicroBatchesGiveTheResultOfTheLargeBatchDropoutIncluded) {
  Rig whole, parts;
  const Batch batch = random_batch({20, 7, 13, 1, 9, 9});
  for (int step = 0; step < 4; ++step) {
    whole.step({batch});
    parts.step(split(batch, 3));
  }
  EXPECT_TRUE(torch::allclose(whole.state.flat.parameters, parts.state.flat.parameters, 0, 1e-11));
  EXPECT_TRUE(torch::allclose(whole.state.sums, parts.state.sums, 1e-9, 1e-9));
}

// Adam with decoupled weight decay as the arena's code defines it, number by number.
TEST(StepEngineTest, UpdatesAreThoseOfTheDefinition) {
  const OptimizerConfig o;
  EncoderConfig c = small_config();
  c.dropout = c.attention_dropout = 0;
  Rig s(torch::kDouble, o, c), other(torch::kDouble, o, c);
  const Batch batch = random_batch({12, 12});
  Tensor p = s.state.flat.parameters.clone(), m = torch::zeros_like(p), v = torch::zeros_like(p);
  for (int64_t step = 0; step < 5; ++step) {
    other.state.flat.parameters.copy_(p);
    other.state.flat.gradients.zero_();
    (torch::cross_entropy_loss(other.encoder->forward(batch, {}), batch.labels)).backward();
    const Tensor g = other.state.flat.gradients;
    s.step({batch});
    const double lr = kSchedule.at(step), t = static_cast<double>(step + 1);
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const Tensor adam =
        (m / (1 - std::pow(o.beta1, t))) / ((v / (1 - std::pow(o.beta2, t))).sqrt() + o.epsilon);
    p = p - lr * adam - lr * o.weight_decay * p;
    // The rate is fp32 on the device.
    EXPECT_TRUE(torch::allclose(s.state.flat.parameters, p, 1e-6, 1e-8)) << step;
    p = s.state.flat.parameters.clone();
  }
}

TEST(StepEngineTest, TheNormThatIsLoggedIsTheOneBeforeClipping) {
  OptimizerConfig o;
  o.clip = 1e-3;
  Rig s(torch::kDouble, o);
  s.step({random_batch({12, 12})});
  EXPECT_GT(s.state.sums[3].item<double>(), 1e-3);
}

TEST(StepEngineTest, GapsOfTheFlatBufferStayZero) {
  Rig s(torch::kFloat);
  const Batch batch = random_batch({12, 12});
  for (int i = 0; i < 3; ++i) s.step({batch});
  Tensor used = torch::zeros_like(s.state.flat.parameters);
  for (const auto& slot : s.state.flat.slots()) used.narrow(0, slot.offset, slot.size).fill_(1);
  EXPECT_EQ((s.state.flat.parameters * (1 - used)).abs().sum().item<double>(), 0);
}

TEST(StepEngineTest, ParametersAreViewsOfTheFlatBuffer) {
  Rig s(torch::kFloat);
  s.state.flat.parameters.fill_(0.5);
  for (const auto& p : s.encoder->parameters()) EXPECT_TRUE((p == 0.5).all().item<bool>());
}

TEST(StepEngineTest, StopsUpdatingAtTheFirstStepThatIsNotFiniteAndNamesTheTensor) {
  Rig s(torch::kFloat);
  const Batch batch = random_batch({12, 12});
  s.step({batch});
  {
    const torch::NoGradGuard no_grad;
    s.encoder->named_parameters()["blocks.1.feed_forward.out.bias"].fill_(
        std::numeric_limits<float>::infinity());
  }
  const Tensor before = s.state.flat.parameters.clone();
  for (int i = 0; i < 3; ++i) s.step({batch});
  EXPECT_EQ(s.state.bad_step.item<int64_t>(), 1);
  EXPECT_TRUE(torch::equal(s.state.flat.parameters, before));
  EXPECT_EQ(find_bad_tensor(*s.encoder, s.state, {&batch, 1}, 1, 4),
            "parameter blocks.1.feed_forward.out.bias");
}

TEST(StepEngineTest, NamesTheFirstActivationThatOverflows) {
  Rig s(torch::kFloat);
  const Batch batch = random_batch({12, 12});
  {
    const torch::NoGradGuard no_grad;
    s.encoder->named_parameters()["blocks.0.feed_forward.out.weight"].fill_(1e38f);
  }
  s.step({batch});
  EXPECT_EQ(s.state.bad_step.item<int64_t>(), 0);
  EXPECT_EQ(find_bad_tensor(*s.encoder, s.state, {&batch, 1}, 0, 4), "output of blocks.0.feed_forward");
}

TEST(StepEngineTest, DropoutDiffersBetweenSteps) {
  Rig s(torch::kDouble, {}, small_config());
  const Batch batch = random_batch({12, 12});
  s.step({batch});  // the rate is 0 at the first step: the parameters do not move
  const double first = s.state.sums[0].item<double>();
  s.step({batch});
  EXPECT_NE(s.state.sums[0].item<double>() - first, first);
}

}  // namespace
}  // namespace lra
