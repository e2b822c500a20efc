#include "kernels/dropout/dropout.h"

#include <gtest/gtest.h>

#include "batch/batch.h"

namespace lra {
namespace {

Dropout rate_at(double p, int64_t step, const Rows& rows, uint64_t site = 5) {
  return {p, site, 42, torch::full({1}, step, torch::kLong), rows.slots};
}

TEST(DropoutTest, EqualsItsDefinitionOnOddSizes) {
  for (const auto& [lengths, width] : std::vector<std::pair<std::vector<int32_t>, int64_t>>{
           {{5, 3, 5}, 7}, {{1, 1}, 64}, {{17}, 1}, {{3, 9, 1}, 515}}) {
    const Rows rows = lay_out(lengths, true, 2);
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const Tensor x = torch::randn({rows.positions, width}, type);
      EXPECT_TRUE(
          torch::equal(dropout(x, rate_at(0.3, 11, rows)), dropout_reference(x, rate_at(0.3, 11, rows))));
    }
  }
}

TEST(DropoutTest, GradientPassesWhereTheValueDid) {
  const Rows rows = lay_out({4, 4, 4}, true);
  const Tensor x = torch::randn({12, 33}, torch::dtype(torch::kDouble).requires_grad(true));
  const Tensor y = dropout(x, rate_at(0.5, 0, rows));
  y.sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad() * x.detach(), y.detach(), 0, 1e-14));
}

TEST(DropoutTest, KeepsTheStatedShareAndTheMean) {
  const Rows rows = lay_out(std::vector<int32_t>(64, 16), true);
  const Tensor y = dropout(torch::ones({64 * 16, 1024}), rate_at(0.1, 7, rows));
  const double n = static_cast<double>(y.numel());
  EXPECT_NEAR((y == 0).sum().item<double>() / n, 0.1, 5 * std::sqrt(0.09 / n));
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 1e-3);
}

TEST(DropoutTest, DiffersBetweenStepsAndSites) {
  const Rows rows = lay_out({8, 8}, true);
  const Tensor x = torch::ones({16, 64});
  const Tensor y = dropout(x, rate_at(0.5, 0, rows));
  EXPECT_FALSE(torch::equal(y, dropout(x, rate_at(0.5, 1, rows))));
  EXPECT_FALSE(torch::equal(y, dropout(x, rate_at(0.5, 0, rows, 6))));
}

TEST(DropoutTest, ARowsMaskDoesNotDependOnItsNeighboursPaddingOrPacking) {
  const Rows whole = lay_out({8, 2, 5, 8}, false), part = lay_out({5, 8}, true, 2);
  const Tensor padded = dropout(torch::ones({32, 40}), rate_at(0.5, 3, whole));
  const Tensor packed = dropout(torch::ones({13, 40}), rate_at(0.5, 3, part));
  EXPECT_TRUE(torch::equal(packed.narrow(0, 0, 5), padded.narrow(0, 16, 5)));
  EXPECT_TRUE(torch::equal(packed.narrow(0, 5, 8), padded.narrow(0, 24, 8)));
}

}  // namespace
}  // namespace lra
