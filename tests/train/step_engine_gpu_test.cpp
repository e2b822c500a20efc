// The same code on the GPU: what must agree with the CPU, and how closely.
#include <gtest/gtest.h>

#include "kernels/attention/attention.h"
#include "support/models.h"
#include "train/step_engine.h"

namespace lra {
namespace {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  }
  const torch::Device cuda_{torch::kCUDA, 0};
};

DropoutKey key_on(const torch::Device& device) {
  return {42, torch::full({1}, 7, torch::TensorOptions(torch::kLong).device(device)), 3};
}

TEST_F(GpuTest, DropoutGivesTheBitsOfTheCpu) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{3, 5, 7}, {2, 129, 64}, {4, 9}, {2, 3, 515}}) {
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const Tensor x = torch::randn(shape, type);
      EXPECT_TRUE(torch::equal(dropout(x.to(cuda_), 0.3, 5, key_on(cuda_)).cpu(),
                               dropout(x, 0.3, 5, key_on(torch::kCPU))));
    }
  }
}

TEST_F(GpuTest, DropoutInBfloat16KeepsTheSameElements) {
  const Tensor x = torch::ones({2, 33, 40}, torch::kBFloat16);
  const Tensor kept = dropout(x.to(cuda_), 0.3, 5, key_on(cuda_)).cpu() != 0;
  EXPECT_TRUE(torch::equal(kept, dropout(x.to(torch::kFloat), 0.3, 5, key_on(torch::kCPU)) != 0));
}

// Losses of training steps with elementwise dropout (attention dropout is drawn by the library's kernel on
// CUDA).
std::vector<double> losses(const torch::Device& device, torch::Dtype type, torch::Dtype compute, int steps) {
  EncoderConfig c = small_config();
  c.attention_dropout = 0;
  auto encoder = small_encoder(find_model("transformer"), c, type);
  encoder->set_compute_type(compute);
  TrainState state = make_train_state(*encoder, device, type);
  auto engine = make_eager_engine(*encoder, state, {}, {"constant", 1e-3, 10, 100}, 4);
  const Batch batch = random_batch({20, 7, 13, 1, 9, 9}).to(device);
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) {
    state.sums.zero_();
    engine->step({&batch, 1});
    out.push_back(state.sums[0].item<double>() / 6);
  }
  return out;
}

TEST_F(GpuTest, TrainingInDoublePrecisionFollowsTheCpu) {
  const auto cpu = losses(torch::kCPU, torch::kDouble, torch::kDouble, 20);
  const auto gpu = losses(cuda_, torch::kDouble, torch::kDouble, 20);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(gpu[i], cpu[i], 1e-6) << i;
}

TEST_F(GpuTest, TrainingInBfloat16StaysWithinItsRounding) {
  const auto cpu = losses(torch::kCPU, torch::kFloat, torch::kFloat, 20);
  const auto gpu = losses(cuda_, torch::kFloat, torch::kBFloat16, 20);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(gpu[i], cpu[i], 0.05) << i;
}

TEST_F(GpuTest, AttentionOfPaddedRowsEqualsTheDefinition) {
  torch::manual_seed(1);
  AttentionInput in{torch::randn({3, 33, 3, 2, 16}), torch::tensor({33, 5, 17}, torch::kInt), 0, 0, {}};
  const Tensor expected = attention_reference(in);
  const Tensor valid = valid_positions(in.lengths, 3, 33).unsqueeze(-1).to(torch::kFloat);
  in.qkv = in.qkv.to(cuda_);
  in.lengths = in.lengths.to(cuda_);
  EXPECT_TRUE(torch::allclose(attention(in).cpu() * valid, expected * valid, 1e-4, 1e-5));
}

// The backward pass of the library's kernel must draw the mask of its forward pass: held against a difference
// quotient.
TEST_F(GpuTest, AttentionDropoutGradientBelongsToTheMaskOfItsForwardPass) {
  torch::manual_seed(2);
  for (const bool padded : {false, true}) {
    AttentionInput in{
        torch::randn({2, 65, 3, 2, 32}).to(cuda_).requires_grad_(true), {}, 0.3, 0, key_on(cuda_)};
    if (padded) in.lengths = torch::tensor({65, 40}, torch::kInt).to(cuda_);
    const Tensor weights = torch::randn({2, 65, 2, 32}).to(cuda_),
                 direction = torch::randn({2, 65, 3, 2, 32}).to(cuda_);
    const auto value = [&](const Tensor& qkv) {
      seed_device_generator(cuda_, 9, uint64_t{5} << 32);
      AttentionInput moved = in;
      moved.qkv = qkv;
      return (attention(moved) * weights).to(torch::kDouble).sum();
    };
    value(in.qkv).backward();
    const double slope = (in.qkv.grad() * direction).to(torch::kDouble).sum().item<double>();
    const torch::NoGradGuard no_grad;
    constexpr double kStep = 1e-3;
    const double quotient =
        (value(in.qkv + kStep * direction) - value(in.qkv - kStep * direction)).item<double>() / (2 * kStep);
    EXPECT_NEAR(quotient, slope, 0.02 * std::abs(slope) + 0.05) << (padded ? "padded" : "full");
  }
}

}  // namespace
}  // namespace lra
