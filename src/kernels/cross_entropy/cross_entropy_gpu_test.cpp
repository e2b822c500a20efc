#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "base/torch_compat.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace lra {
namespace {

class CrossEntropyGpuTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(CrossEntropyGpuTest, EqualsTheCpu) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  torch::manual_seed(0);
  const auto [B, C] = GetParam();
  const Tensor labels = torch::randint(C, {B}, torch::kLong);
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const Tensor x = (5 * torch::randn({B, C}, type)).requires_grad_(true);
    const Tensor on_device = x.detach().to(torch::kCUDA).requires_grad_(true);
    const auto expected = cross_entropy(x, labels), ours = cross_entropy(on_device, labels.to(torch::kCUDA));
    const double within = type == torch::kFloat ? 1e-5 : 1e-11;
    EXPECT_TRUE(torch::allclose(ours.loss.cpu(), expected.loss, within, within));
    EXPECT_TRUE(torch::equal(ours.correct.cpu(), expected.correct));
    EXPECT_TRUE(torch::allclose(torch::autograd::grad({ours.loss}, {on_device})[0].cpu(),
                                torch::autograd::grad({expected.loss}, {x})[0], within, within));
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, CrossEntropyGpuTest,
                         testing::Values(std::pair<int64_t, int64_t>{1, 2},
                                         std::pair<int64_t, int64_t>{7, 10},
                                         std::pair<int64_t, int64_t>{33, 1000},
                                         std::pair<int64_t, int64_t>{1024, 3}));

TEST(CrossEntropyGpuEdgeTest, TurnsIntoNotANumberForALabelThatIsNoClass) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  const Tensor labels = torch::tensor({0, 3}, torch::kLong).to(torch::kCUDA);
  const Tensor x = torch::zeros({2, 3}, torch::kCUDA);
  EXPECT_TRUE(std::isnan(cross_entropy(x, labels).loss.item<float>()));
}

}  // namespace
}  // namespace lra
