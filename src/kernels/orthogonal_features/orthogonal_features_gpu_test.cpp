#include <gtest/gtest.h>

#include "kernels/orthogonal_features/orthogonal_features.h"
#include "support/test_device.h"

namespace lra {
namespace {

// Whole blocks, a last one that is not, fewer directions than the width, and a width at which static and
// dynamic shared memory only together take more than 48 KiB.
TEST(OrthogonalFeaturesGpuTest, DrawsAsTheCpuDoes) {
  const TestDevice device;
  for (const auto& [count, width] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 8}, {20, 8}, {64, 64}, {70, 33}, {5, 1}, {78, 78}, {160, 160}}) {
    for (const Tensor& at : {torch::full({1}, 123456, torch::kLong), Tensor()}) {
      const OrthogonalFeatures f{count, width, 300, 0xfedcba9876543210ull, at, 10};
      const Tensor expected = orthogonal_features(f, torch::kCPU);
      OrthogonalFeatures there = f;
      if (at.defined()) there.step = device.copy(at);
      const Tensor ours = device.run([&] { return orthogonal_features(there, device); });
      EXPECT_EQ(ours.sizes(), expected.sizes());
      EXPECT_TRUE(torch::allclose(ours.cpu(), expected, 0, 1e-9)) << count << " of width " << width;
    }
  }
}

}  // namespace
}  // namespace lra
