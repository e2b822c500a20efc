#include <gtest/gtest.h>

#include "kernels/pool/pool_example.h"
#include "support/test_device.h"

namespace lra {
namespace {

class PoolGpuTest : public testing::TestWithParam<PoolExample> {
 protected:
  std::vector<Tensor> results(const PoolInput& in, torch::Dtype parameters, torch::Dtype type) const {
    return device_.run([&] { return pool_results(pool_copy(in, parameters, type, device_), pool); });
  }

 private:
  const TestDevice device_;
};

TEST_P(PoolGpuTest, EqualsTheCpuInDoublePrecision) {
  torch::manual_seed(0);
  const PoolInput in = GetParam().input();
  const auto expected = pool_results(in, pool);
  const auto ours = results(in, torch::kDouble, torch::kDouble);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].cpu(), expected[i], 1e-8, 1e-11)) << i;
  }
}

TEST_P(PoolGpuTest, EqualsTheCpuInSinglePrecision) {
  torch::manual_seed(1);
  const PoolInput in = pool_copy(GetParam().input(), torch::kFloat, torch::kFloat);
  const auto expected = pool_results(in, pool);
  const auto ours = results(in, torch::kFloat, torch::kFloat);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i].cpu(), expected[i], 1e-3, 1e-4)) << i;
}

TEST_P(PoolGpuTest, InHalfPrecisionIsWithinItsRounding) {
  torch::manual_seed(2);
  // Inputs that bfloat16 holds exactly, so that only results are rounded.
  const PoolInput rounded = pool_copy(GetParam().input(), torch::kFloat, torch::kBFloat16);
  const auto expected = pool_results(pool_copy(rounded, torch::kDouble, torch::kDouble), pool_reference);
  const auto ours = results(rounded, torch::kFloat, torch::kBFloat16);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kCPU, torch::kDouble), expected[i], 8e-3, 1e-3)) << i;
  }
}

TEST_P(PoolGpuTest, GivesTheSameBitsTwice) {
  const PoolInput in = GetParam().input();
  const auto first = results(in, torch::kFloat, torch::kBFloat16),
             second = results(in, torch::kFloat, torch::kBFloat16);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(OddSizes, PoolGpuTest,
                         testing::Values(PoolExample{{1}, true, 5, false, false, false, 0, 0},
                                         PoolExample{{5, 3, 9}, true, 24, true, true, false, 0, 0},
                                         PoolExample{{5, 3, 9}, false, 13, true, true, false, 0.25, 0},
                                         PoolExample{{5, 3, 9}, false, 13, true, false, true, 0.25, 0},
                                         PoolExample{{5, 3, 9}, true, 128, true, true, true, 0, 6},
                                         PoolExample{{300, 129, 1}, true, 40, true, true, false, 0.1, 300},
                                         PoolExample{{200, 128}, false, 512, true, true, false, 0.1, 1},
                                         PoolExample{{20, 9}, false, 1030, true, true, false, 0.1, 1},
                                         PoolExample{{20, 9}, false, 4096, true, true, false, 0, 1},
                                         // segments of many positions, several rows in one
                                         PoolExample{
                                             {3000, 17, 1, 900}, true, 256, true, true, false, 0.1, 5000},
                                         PoolExample{{7, 2, 5000, 40}, true, 77, true, true, false, 0, 0}));

}  // namespace
}  // namespace lra
