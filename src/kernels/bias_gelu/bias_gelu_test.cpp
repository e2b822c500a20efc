#include "kernels/bias_gelu/bias_gelu.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

class BiasGeluTest : public testing::TestWithParam<std::tuple<std::vector<int64_t>, double>> {
 protected:
  // y, dx and dbias under a fixed weighting of y.
  static std::vector<Tensor> results(const Tensor& x, const Tensor& bias, double p,
                                     decltype(&bias_gelu_dropout) f) {
    const Tensor in = x.detach().requires_grad_(true), b = bias.detach().requires_grad_(true);
    const Tensor y = f(in, b, p, 4, {3, torch::full({1}, 2, torch::kLong), 1});
    (y * torch::sin(torch::arange(y.numel(), y.options().requires_grad(false))).view(y.sizes()))
        .sum()
        .backward();
    return {y.detach(), in.grad(), b.grad()};
  }
};

TEST_P(BiasGeluTest, EqualsItsDefinitionInDoublePrecision) {
  torch::manual_seed(0);
  const auto& [shape, p] = GetParam();
  const Tensor x = 3 * torch::randn(shape, torch::kDouble), bias = torch::randn({shape[2]}, torch::kDouble);
  const auto ours = results(x, bias, p, bias_gelu_dropout),
             expected = results(x, bias, p, bias_gelu_dropout_reference);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-11, 1e-12)) << i;
}

TEST_P(BiasGeluTest, InSinglePrecisionIsWithinItsRounding) {
  torch::manual_seed(1);
  const auto& [shape, p] = GetParam();
  const Tensor x = 3 * torch::randn(shape, torch::kDouble), bias = torch::randn({shape[2]}, torch::kDouble);
  const auto ours = results(x.to(torch::kFloat), bias.to(torch::kFloat), p, bias_gelu_dropout);
  const auto expected = results(x, bias, p, bias_gelu_dropout_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kDouble), expected[i], 1e-4, 1e-5))
        << i << ": " << (ours[i] - expected[i]).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(
    OddSizes, BiasGeluTest,
    testing::Combine(testing::Values(std::vector<int64_t>{2, 3, 5}, std::vector<int64_t>{1, 1, 1},
                                     std::vector<int64_t>{3, 300, 33}, std::vector<int64_t>{2, 7, 128}),
                     testing::Values(0.0, 0.25)));

TEST(BiasGeluEdgeTest, IsZeroOrTheIdentityFarOutAndPassesNotANumberOn) {
  const Tensor x = torch::tensor({-100.f, 100.f, std::nanf("")}).view({1, 1, 3});
  const Tensor y = bias_gelu_dropout(x, torch::zeros({3}), 0, 0, {});
  EXPECT_FLOAT_EQ(y[0][0][0].item<float>(), 0);
  EXPECT_FLOAT_EQ(y[0][0][1].item<float>(), 100);
  EXPECT_TRUE(std::isnan(y[0][0][2].item<float>()));
}

}  // namespace
}  // namespace lra
