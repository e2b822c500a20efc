#include <gtest/gtest.h>
#include <torch/types.h>

#include "kernels/cross_entropy/cross_entropy.h"
#include "support/test_device.h"

namespace lra {
namespace {

class CrossEntropyGpuTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(CrossEntropyGpuTest, EqualsTheCpu) {
  const TestDevice device;
  torch::manual_seed(0);
  const auto [B, C] = GetParam();
  const Tensor labels = torch::randint(C, {B}, torch::kLong);
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const Tensor x = 5 * torch::randn({B, C}, type), there = device.copy(x);
    const auto expected = cross_entropy(x, labels, 0.3),
               ours = device.run([&] { return cross_entropy(there, labels.to(device.device()), 0.3); });
    const double within = type == torch::kFloat ? 1e-5 : 1e-11;
    EXPECT_TRUE(torch::allclose(ours.loss.cpu(), expected.loss, within, within));
    EXPECT_TRUE(torch::equal(ours.correct.cpu(), expected.correct));
    EXPECT_TRUE(torch::allclose(ours.gradient.cpu(), expected.gradient, within, within));
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, CrossEntropyGpuTest,
                         testing::Values(std::pair<int64_t, int64_t>{1, 2},
                                         std::pair<int64_t, int64_t>{7, 10},
                                         std::pair<int64_t, int64_t>{33, 1000},
                                         std::pair<int64_t, int64_t>{1024, 3},
                                         std::pair<int64_t, int64_t>{1025, 257},  // several blocks
                                         // more rows than all blocks take at once
                                         std::pair<int64_t, int64_t>{9000, 300}));

TEST(CrossEntropyGpuBitsTest, AreTheSameTwice) {
  const TestDevice device;
  const Tensor x = device.copy(torch::randn({5000, 10})),
               labels = device.copy(torch::randint(10, {5000}, torch::kLong));
  const auto loss = [&] { return device.run([&] { return cross_entropy(x, labels).loss.item<float>(); }); };
  EXPECT_EQ(loss(), loss());
}

TEST(CrossEntropyGpuEdgeTest, TurnsIntoNotANumberForALabelThatIsNoClass) {
  const TestDevice device;
  const Tensor labels = torch::tensor({0, 3}, torch::kLong).to(device.device());
  const Tensor x = torch::zeros({2, 3}, device.device());
  const Tensor loss = device.run([&] { return cross_entropy(x, labels).loss; });
  EXPECT_TRUE(std::isnan(loss.item<float>()));
}

}  // namespace
}  // namespace lra
