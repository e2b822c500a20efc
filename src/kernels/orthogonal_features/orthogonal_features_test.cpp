#include "kernels/orthogonal_features/orthogonal_features.h"

#include <gtest/gtest.h>

#include "kernels/portable.h"

namespace lra {
namespace {

using torch::Tensor;

Tensor step(int64_t n) { return torch::full({1}, n, torch::kLong); }

Tensor draw(const OrthogonalFeatures& f) { return orthogonal_features(f, torch::kCPU); }

TEST(OrthogonalFeaturesTest, RowsOfABlockAreOrthogonal) {
  const Tensor omega = draw({20, 8, 3, 5, step(7), 1});
  EXPECT_EQ(omega.sizes(), (std::vector<int64_t>{20, 8}));
  for (const auto& [first, rows] : std::vector<std::pair<int64_t, int64_t>>{{0, 8}, {8, 8}, {16, 4}}) {
    const Tensor block = omega.narrow(0, first, rows), products = block.mm(block.t());
    EXPECT_LT((products - torch::diag(products.diagonal())).abs().max().item<double>(), 1e-12);
  }
  EXPECT_GT(omega.narrow(0, 0, 8).mm(omega.narrow(0, 8, 8).t()).abs().max().item<double>(), 0.1);
}

TEST(OrthogonalFeaturesTest, OtherDevicesDrawTheSame) {
  for (const int64_t count : {2, 8, 20}) {
    for (const Tensor& at : {step(123456), Tensor()}) {
      const OrthogonalFeatures f{count, 8, 300, 0xfedcba9876543210ull, at, 10};
      const Tensor ours = draw(f);
      const PortablePath portable;
      EXPECT_TRUE(torch::allclose(ours, draw(f), 0, 1e-10)) << count;
    }
  }
}

// Each ω is normal: lengths squared have mean P and variance 2P, every coordinate mean 0 and variance 1.
TEST(OrthogonalFeaturesTest, EachRowIsDistributedAsANormalVector) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < 500; ++i) all.push_back(draw({8, 8, 3, 5, step(i), 1}));
  const Tensor omega = torch::cat(all), squares = omega.square().sum(1);  // [4000, 8]
  EXPECT_NEAR(squares.mean().item<double>(), 8, 0.3);
  EXPECT_NEAR(squares.var().item<double>(), 16, 1.6);
  EXPECT_LT(omega.mean(0).abs().max().item<double>(), 0.07);
  EXPECT_LT((omega.var(0) - 1).abs().max().item<double>(), 0.11);
}

TEST(OrthogonalFeaturesTest, ADrawDependsOnSeedSiteAndPeriodAlone) {
  const Tensor first = draw({8, 8, 3, 5, step(20), 10});
  EXPECT_TRUE(torch::equal(first, draw({8, 8, 3, 5, step(29), 10})));
  EXPECT_FALSE(torch::equal(first, draw({8, 8, 3, 5, step(30), 10})));
  EXPECT_FALSE(torch::equal(first, draw({8, 8, 4, 5, step(20), 10})));
  EXPECT_FALSE(torch::equal(first, draw({8, 8, 3, 6, step(20), 10})));
}

TEST(OrthogonalFeaturesTest, EvaluationHasOneFixedDraw) {
  EXPECT_TRUE(torch::equal(draw({8, 8, 3, 5, {}, 10}), draw({8, 8, 3, 6, {}, 1})));
}

}  // namespace
}  // namespace lra
