#include "kernels/noise/noise.h"

#include <gtest/gtest.h>

#include "base/philox.h"

namespace lra {
namespace {

Noise noise(int64_t step = 5) { return {21, 0x123456789abcdefull, torch::full({1}, step, torch::kLong)}; }

TEST(NoiseTest, IsPhiloxOfItsCounters) {
  const torch::Tensor index = torch::tensor({0, 1, 77}, torch::kLong).add(int64_t{5} << 33);
  const torch::Tensor u = uniform_noise(index, noise(), torch::kDouble);
  for (int64_t i = 0; i < 3; ++i) {
    const uint32_t word =
        philox(0x123456789abcdefull, (uint64_t{21} << 48) | 5, index[i].item<int64_t>()).word[0];
    EXPECT_DOUBLE_EQ(u[i].item<double>(), ((word >> 9) + 0.5) / 8388608.0);
  }
}

TEST(NoiseTest, HasTheMomentsOfItsDistributions) {
  const torch::Tensor index = torch::arange(200'000, torch::kLong);
  const torch::Tensor normal = normal_noise(index, noise(), torch::kDouble);
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(normal.std().item<double>(), 1, 0.01);
  const torch::Tensor gumbel = gumbel_noise(index, noise(), torch::kFloat);
  EXPECT_NEAR(gumbel.mean().item<double>(), 0.57721566, 0.01);  // Euler's constant
  EXPECT_NEAR(gumbel.std().item<double>(), 1.28254983, 0.01);   // π/√6
  EXPECT_TRUE(torch::isfinite(gumbel).all().item<bool>());
}

}  // namespace
}  // namespace lra
