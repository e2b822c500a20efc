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

// Few values, so that many logits are equal; and some classes cannot be.
TEST_P(CrossEntropyGpuTest, EqualsTheCpuForEqualLogits) {
  const TestDevice device;
  torch::manual_seed(0);
  const auto [B, C] = GetParam();
  Tensor x = torch::randint(3, {B, C}, torch::kFloat);
  x.masked_fill_(x == 0, -std::numeric_limits<float>::infinity());
  x.select(1, 0).fill_(1);
  const Tensor labels = x.argmax(1).add_(torch::randint(2, {B}, torch::kLong)).remainder_(C),
               there = device.copy(x), labels_there = device.copy(labels);
  const auto expected = cross_entropy(x, labels, 0.3),
             ours = device.run([&] { return cross_entropy(there, labels_there, 0.3); });
  EXPECT_TRUE(torch::equal(ours.correct.cpu(), expected.correct));
  EXPECT_TRUE(torch::allclose(ours.loss.cpu(), expected.loss, 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(ours.gradient.cpu(), expected.gradient, 1e-5, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(OddSizes, CrossEntropyGpuTest,
                         testing::Values(std::pair<int64_t, int64_t>{3, 1}, std::pair<int64_t, int64_t>{1, 2},
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
  for (const int64_t C : {3, 10, 300}) {
    for (const int64_t wrong : {C, int64_t{-1}, int64_t{1} << 32}) {
      const Tensor labels = torch::tensor({int64_t{0}, wrong}, torch::kLong).to(device.device());
      const Tensor x = torch::zeros({2, C}, device.device());
      const CrossEntropy ours = device.run([&] { return cross_entropy(x, labels, 1.0); });
      EXPECT_TRUE(std::isnan(ours.loss.item<float>()));
      EXPECT_EQ(ours.correct.item<int64_t>(), 1);
      EXPECT_TRUE(ours.gradient[0].isfinite().all().item<bool>());
      EXPECT_TRUE(ours.gradient[1].isnan().all().item<bool>());
    }
  }
}

// A run that has diverged is right about nothing.
TEST(CrossEntropyGpuEdgeTest, CountsNoLogitThatIsNotANumber) {
  const TestDevice device;
  for (const int64_t C : {3, 10, 300}) {
    const Tensor labels = torch::arange(3, torch::kLong).to(device.device());
    const Tensor x = torch::full({3, C}, std::nanf(""), device.device());
    x[2][0] = 1;
    const CrossEntropy ours = device.run([&] { return cross_entropy(x, labels, 1.0); });
    EXPECT_TRUE(std::isnan(ours.loss.item<float>()));
    EXPECT_EQ(ours.correct.item<int64_t>(), 0) << C;
  }
}

}  // namespace
}  // namespace lra
