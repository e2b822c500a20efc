// A whole step with the kernels of the GPU, in their place between everything else.
#include <gtest/gtest.h>

#include "support/test_device.h"
#include "support/train_steps.h"

namespace lra {
namespace {

class TrainingGpuTest : public testing::TestWithParam<bool> {
 protected:
  void expect_losses_of_the_cpu(torch::Dtype type, double tolerance) const {
    RunOptions o{torch::kCPU, type, type, EngineKind::kEager};
    o.packed = GetParam();
    const auto cpu = train_steps(o, 20).first;
    const TestDevice device;
    o.device = device;
    expect_near(device.run([&] { return train_steps(o, 20).first; }), cpu, tolerance);
  }
};

TEST_P(TrainingGpuTest, InDoublePrecisionFollowsTheCpu) { expect_losses_of_the_cpu(torch::kDouble, 1e-6); }
TEST_P(TrainingGpuTest, InSinglePrecisionFollowsTheCpu) { expect_losses_of_the_cpu(torch::kFloat, 1e-4); }

INSTANTIATE_TEST_SUITE_P(PackedAndPadded, TrainingGpuTest, testing::Bool());

}  // namespace
}  // namespace lra
