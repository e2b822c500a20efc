#include <gtest/gtest.h>

#include "kernels/noise/noise.h"
#include "support/test_device.h"

namespace lra {
namespace {

TEST(NoiseGpuTest, DrawsTheBitsOfTheCpu) {
  const TestDevice device;
  const Tensor index = torch::arange(1001, torch::kLong).view({13, 77}) * 0x3456789abcd,
               step = torch::full({1}, int64_t{3} << 33, torch::kLong);
  const Noise there{21, 0x123456789abcdefull, device.copy(step)};
  const Tensor ours =
      device.run([&] { return uniform_noise(device.copy(index), there, torch::kFloat); }).cpu();
  EXPECT_TRUE(torch::equal(ours, uniform_noise(index, {there.site, there.seed, step}, torch::kFloat)));
}

}  // namespace
}  // namespace lra
