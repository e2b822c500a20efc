#include "kernels/combine_rounds/combine_rounds.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(CombineRoundsTest, WeighsRoundsByTheSumsOfTheirWeights) {
  torch::manual_seed(1);
  const torch::Tensor out = torch::randn({4, 6, 5}, torch::kDouble),
                      lse = torch::randn({4, 6}, torch::kDouble);
  const torch::Tensor y = combine_rounds(out, lse, 3);
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      torch::Tensor sum = torch::zeros({5}, torch::kDouble);
      double all = 0;
      for (int64_t r = 0; r < 3; ++r) {
        const double weight = std::exp(lse[t][2 * r + h].item<double>());
        sum += weight * out[t][2 * r + h];
        all += weight;
      }
      EXPECT_TRUE(torch::allclose(y[t][h], sum / all, 1e-12, 1e-12));
    }
  }
}

}  // namespace
}  // namespace lra
