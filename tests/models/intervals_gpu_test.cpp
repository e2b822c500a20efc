// The models whose core is interval_attention, in bfloat16 by its CUDA kernels, beside the CPU's.
#include <gtest/gtest.h>

#include "support/models.h"
#include "support/test_device.h"
#include "train/step_engine.h"

namespace lra {
namespace {

std::vector<double> losses(const std::string& model, const EncoderConfig& c, const torch::Device& device,
                           torch::Dtype compute, EngineKind kind) {
  auto encoder = small_encoder(find_model(model), c);
  encoder->set_compute_type(compute);
  TrainState state = make_train_state(*encoder, device, torch::kFloat, compute);
  auto engine = make_engine(kind, *encoder, state, {}, {"constant", 1e-3, 10, 100}, 4);
  const std::vector<int32_t> lengths = {60, 7, 52, 1};
  FixedSource source({random_batch(lengths, encoder->layout(true)).to(device)});
  std::vector<double> all;
  for (int i = 0; i < 4; ++i) {
    state.sums.zero_();
    engine->step(source);
    all.push_back(state.sums[0].item<double>() / static_cast<double>(lengths.size()));
  }
  return all;
}

class IntervalModelsGpuTest : public testing::TestWithParam<std::string> {};

void expect_near_the_cpu(const std::string& model, const EncoderConfig& c, const TestDevice& device) {
  const auto cpu = losses(model, c, torch::kCPU, torch::kFloat, EngineKind::kEager);
  const auto ours = device.run([&] {
    return losses(model, c, device, torch::kBFloat16,
                  device.emulated() ? EngineKind::kEager : EngineKind::kGraph);
  });
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(ours[i], cpu[i], 0.05) << "step " << i;
}

// Dropout included, which draws the same numbers everywhere.
TEST_P(IntervalModelsGpuTest, TrainInBfloat16WithinItsRounding) {
  EncoderConfig c = small_config();
  c.pooling = "mean";
  expect_near_the_cpu(GetParam(), c, TestDevice());
}

// With CLS the last block's attention is the library's: its dropout draws other numbers, and an emulated
// device has none of it in bfloat16.
TEST_P(IntervalModelsGpuTest, TrainInBfloat16WithinItsRoundingWithCls) {
  const TestDevice device;
  if (device.emulated()) GTEST_SKIP() << "no GPU: the library's attention has no emulated form";
  EncoderConfig c = small_config();
  c.pooling = "cls";
  c.attention_dropout = 0;
  expect_near_the_cpu(GetParam(), c, device);
}

INSTANTIATE_TEST_SUITE_P(Models, IntervalModelsGpuTest,
                         testing::Values("local", "sparse", "longformer", "bigbird", "sinkhorn", "reformer"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace lra
