#include <gtest/gtest.h>

#include "kernels/adamw/adamw.h"
#include "support/test_device.h"

namespace lra {
namespace {

AdamWState random_state(int64_t n, torch::Dtype type) {
  torch::manual_seed(5);
  AdamWState s;
  s.parameters = torch::randn({n}, type);
  s.gradients = torch::zeros({n}, type);
  s.first = torch::zeros({n}, type);
  s.second = torch::zeros({n}, type);
  s.working = s.parameters.to(torch::kBFloat16);
  s.step = torch::zeros({1}, torch::kLong);
  s.bad_step = torch::full({1}, -1, torch::kLong);
  s.sums = torch::zeros({4}, torch::kDouble);
  s.scratch = adamw_scratch(s.parameters);
  return s;
}

AdamWState on_test_device(const AdamWState& s) {
  const TestDevice device;
  const auto move = [&](const Tensor& t) { return device.copy(t); };
  return {move(s.parameters), move(s.gradients), move(s.first),
          move(s.second),     move(s.working),   move(s.step),
          move(s.bad_step),   move(s.sums),      adamw_scratch(move(s.parameters))};
}

AdamWOptions options_of(int64_t decayed_end) {
  AdamWOptions o;
  o.schedule = {2, 0.01, 2, 10};
  o.decayed_end = decayed_end;
  o.clip = 1;
  return o;
}

void device_step(const AdamWState& state, const AdamWOptions& o, const Tensor& loss, const Tensor& correct,
                 int64_t rows) {
  const TestDevice device;
  device.run([&] { adamw_step(state, o, device.copy(loss), device.copy(correct), rows); });
}

void step_both(const AdamWState& cpu, const AdamWState& gpu, const AdamWOptions& o, int64_t number,
               torch::Dtype loss_type = torch::kFloat) {
  torch::manual_seed(static_cast<uint64_t>(number));
  cpu.gradients.copy_(torch::randn_like(cpu.gradients));
  gpu.gradients.copy_(cpu.gradients);
  const Tensor loss = torch::full({}, 2.5, loss_type), correct = torch::full({}, 3, torch::kLong);
  adamw_step(cpu, o, loss, correct, 8);
  device_step(gpu, o, loss, correct, 8);
}

void expect_close(const AdamWState& gpu, const AdamWState& cpu, double tolerance) {
  const auto close = [&](const Tensor& a, const Tensor& b) {
    return torch::allclose(a.cpu(), b, tolerance, tolerance);
  };
  EXPECT_TRUE(close(gpu.parameters, cpu.parameters));
  EXPECT_TRUE(close(gpu.first, cpu.first));
  EXPECT_TRUE(close(gpu.second, cpu.second));
  EXPECT_TRUE(torch::allclose(gpu.sums.cpu(), cpu.sums, 1e-12, 1e-12));
  EXPECT_TRUE(torch::equal(gpu.step.cpu(), cpu.step));
  EXPECT_TRUE(torch::equal(gpu.bad_step.cpu(), cpu.bad_step));
  EXPECT_TRUE(torch::equal(gpu.working, gpu.parameters.to(torch::kBFloat16)));
}

class AdamWGpuTest : public testing::TestWithParam<int64_t> {};

TEST_P(AdamWGpuTest, InDoublePrecisionEqualsTheCpu) {
  const AdamWState cpu = random_state(GetParam(), torch::kDouble), gpu = on_test_device(cpu);
  for (int64_t i = 0; i < 4; ++i) step_both(cpu, gpu, options_of(GetParam() / 2), i);
  expect_close(gpu, cpu, 1e-12);
}

TEST_P(AdamWGpuTest, InSinglePrecisionIsWithinItsRoundingOfTheCpu) {
  const AdamWState cpu = random_state(GetParam(), torch::kFloat), gpu = on_test_device(cpu);
  for (int64_t i = 0; i < 4; ++i) step_both(cpu, gpu, options_of(GetParam() / 2), i);
  expect_close(gpu, cpu, 2e-6);
}

TEST_P(AdamWGpuTest, HasTheSameBitsInEveryRun) {
  const AdamWState cpu = random_state(GetParam(), torch::kFloat), once = on_test_device(cpu),
                   again = on_test_device(cpu);
  for (int64_t i = 0; i < 2; ++i) {
    step_both(cpu, once, options_of(GetParam()), i);
    step_both(cpu, again, options_of(GetParam()), i);
  }
  EXPECT_TRUE(torch::equal(once.parameters, again.parameters));
  EXPECT_TRUE(torch::equal(once.sums, again.sums));
}

TEST_P(AdamWGpuTest, BuffersThatAreNotAlignedForVectorsGiveTheSame) {
  const int64_t n = GetParam();
  const AdamWState cpu = random_state(n, torch::kFloat);
  AdamWState gpu = on_test_device(cpu);
  gpu.gradients = torch::zeros({n + 1}, gpu.gradients.options()).narrow(0, 1, n);
  for (int64_t i = 0; i < 2; ++i) step_both(cpu, gpu, options_of(n), i);
  expect_close(gpu, cpu, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AdamWGpuTest, testing::Values(1, 3, 17, 1024, 50021, 3000001));

using AdamWGpuStopTest = AdamWGpuTest;

TEST_P(AdamWGpuStopTest, ANonFiniteGradientStopsEverythingButStepAndSums) {
  const int64_t n = 5003;
  const AdamWState cpu = random_state(n, torch::kFloat), gpu = on_test_device(cpu);
  AdamWOptions o = options_of(n);
  o.zero_gradients = true;
  for (int64_t i = 0; i < 3; ++i) step_both(cpu, gpu, o, i);
  const Tensor before = gpu.parameters.clone();
  const Tensor loss = torch::ones({}), correct = torch::ones({}, torch::kLong);
  gpu.gradients[GetParam()].fill_(std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < 2; ++i) device_step(gpu, o, loss, correct, 4);
  EXPECT_EQ(gpu.bad_step.item<int64_t>(), 3);
  EXPECT_EQ(gpu.step.item<int64_t>(), 5);
  EXPECT_TRUE(torch::equal(gpu.parameters, before));
  EXPECT_TRUE((gpu.gradients == 0).all().item<bool>());
  EXPECT_EQ(gpu.sums[2].item<double>(), 3 * 8 + 2 * 4);
}

INSTANTIATE_TEST_SUITE_P(Places, AdamWGpuStopTest, testing::Values(0, 2500, 5002));

TEST_P(AdamWGpuTest, TheLossMayComeInAnyFloatingType) {
  for (const auto type : {torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    const AdamWState cpu = random_state(GetParam(), torch::kFloat), gpu = on_test_device(cpu);
    step_both(cpu, gpu, options_of(0), 0, type);
    EXPECT_EQ(gpu.sums[0].item<double>(), 2.5);
  }
}

}  // namespace
}  // namespace lra
