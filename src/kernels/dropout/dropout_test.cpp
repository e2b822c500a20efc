#include "kernels/dropout/dropout.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

DropoutKey key_at(int64_t step, int64_t first_row = 0) {
  return {42, torch::full({1}, step, torch::kLong), first_row};
}

TEST(DropoutTest, EqualsItsDefinitionOnOddSizes) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{3, 5, 7}, {2, 1, 64}, {1, 17, 1}, {4, 9}, {2, 3, 515}}) {
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const Tensor x = torch::randn(shape, type);
      EXPECT_TRUE(
          torch::equal(dropout(x, 0.3, 5, key_at(11, 2)), dropout_reference(x, 0.3, 5, key_at(11, 2))));
    }
  }
}

TEST(DropoutTest, GradientPassesWhereTheValueDid) {
  const Tensor x = torch::randn({3, 4, 33}, torch::dtype(torch::kDouble).requires_grad(true));
  const Tensor y = dropout(x, 0.5, 1, key_at(0));
  y.sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad() * x.detach(), y.detach(), 0, 1e-14));
}

TEST(DropoutTest, KeepsTheStatedShareAndTheMean) {
  const Tensor y = dropout(torch::ones({64, 16, 1024}), 0.1, 3, key_at(7));
  const double n = static_cast<double>(y.numel());
  EXPECT_NEAR((y == 0).sum().item<double>() / n, 0.1, 5 * std::sqrt(0.09 / n));
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 1e-3);
}

TEST(DropoutTest, DiffersBetweenStepsAndSites) {
  const Tensor x = torch::ones({2, 8, 64});
  const Tensor y = dropout(x, 0.5, 1, key_at(0));
  EXPECT_FALSE(torch::equal(y, dropout(x, 0.5, 1, key_at(1))));
  EXPECT_FALSE(torch::equal(y, dropout(x, 0.5, 2, key_at(0))));
}

TEST(DropoutTest, ARowsMaskDoesNotDependOnItsNeighboursOrPadding) {
  const Tensor x = torch::ones({4, 8, 40});
  const Tensor whole = dropout(x, 0.5, 1, key_at(3));
  const Tensor part = dropout(x.narrow(0, 2, 2).narrow(1, 0, 5).contiguous(), 0.5, 1, key_at(3, 2));
  EXPECT_TRUE(torch::equal(part, whole.narrow(0, 2, 2).narrow(1, 0, 5)));
}

}  // namespace
}  // namespace lra
