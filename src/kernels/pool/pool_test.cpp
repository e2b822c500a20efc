#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernels/pool/pool_example.h"

namespace lra {
namespace {

class PoolTest : public testing::TestWithParam<PoolExample> {};

TEST_P(PoolTest, EqualsItsDefinitionInDoublePrecision) {
  torch::manual_seed(0);
  const PoolInput in = GetParam().input();
  const auto ours = pool_results(in, pool), expected = pool_results(in, pool_reference);
  ASSERT_EQ(ours.size(), expected.size());
  EXPECT_TRUE(torch::allclose(ours[0], expected[0], 0, 1e-11));
  for (size_t i = 1; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-8, 1e-11)) << i;
}

TEST_P(PoolTest, InSinglePrecisionIsWithinItsRounding) {
  torch::manual_seed(1);
  const PoolInput in = GetParam().input();
  const auto ours = pool_results(pool_copy(in, torch::kFloat, torch::kFloat), pool);
  const auto expected = pool_results(in, pool_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kDouble), expected[i], 1e-3, 1e-4)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, PoolTest,
                         testing::Values(PoolExample{{1}, true, 5, false, false, false, 0, 0},
                                         PoolExample{{5, 3, 9}, true, 24, true, true, false, 0, 0},
                                         PoolExample{{5, 3, 9}, false, 13, true, true, false, 0.25, 0},
                                         PoolExample{{5, 3, 9}, false, 13, true, false, true, 0.25, 0},
                                         PoolExample{{5, 3, 9}, true, 33, true, true, true, 0, 6},
                                         PoolExample{{300, 129, 1}, true, 40, true, true, false, 0.1, 300},
                                         PoolExample{{2, 128}, false, 515, false, false, false, 0, 1}));

TEST(PoolGradientTest, IsAddedToGradientsThatAreThere) {
  const PoolInput in = PoolExample{{5, 3}, true, 8, true, true, false, 0, 0}.input();
  const auto expected = pool_results(in, pool_reference);
  for (const Tensor& t : {in.bias, in.weight, in.offset}) t.mutable_grad() = torch::ones_like(t).detach();
  pool(in).backward(torch::sin(torch::arange(16, torch::kDouble)).view({2, 8}));
  EXPECT_TRUE(torch::allclose(in.bias.grad(), 1 + expected[3], 0, 1e-12));
  EXPECT_TRUE(torch::allclose(in.weight.grad(), 1 + expected[4], 0, 1e-12));
  EXPECT_TRUE(torch::allclose(in.offset.grad(), 1 + expected[5], 0, 1e-12));
}

TEST(PoolGradientTest, IsZeroWhereNothingIsPooled) {
  const PoolInput in = PoolExample{{2, 4}, false, 16, true, true, false, 0.5, 3}.input();
  const auto results = pool_results(in, pool);
  for (const Tensor& d : {results[1], results[2]}) {
    EXPECT_TRUE(torch::equal(d.narrow(0, 2, 2), torch::zeros({2, 16}, torch::kDouble)));
    EXPECT_TRUE(torch::equal(d.narrow(0, 8, 3), torch::zeros({3, 16}, torch::kDouble)));
  }
}

TEST(PoolGradientTest, IsTheSameForAnyNumberOfThreads) {
  const PoolInput in = pool_copy(PoolExample{{1000, 700, 300}, true, 48, true, true, false, 0.1, 0}.input(),
                                 torch::kFloat, torch::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = pool_results(in, pool);
  at::set_num_threads(3);
  const auto three = pool_results(in, pool);
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

TEST(PoolForwardTest, WorksInInferenceMode) {
  const PoolInput in = PoolExample{{5, 3}, true, 8, true, true, false, 0.5, 0}.input();
  const Tensor expected = pool_reference(in).detach();
  const c10::InferenceMode inference;
  EXPECT_TRUE(torch::allclose(pool(in), expected, 0, 1e-12));
}

}  // namespace
}  // namespace lra
