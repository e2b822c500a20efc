#include <numeric>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "emulated/example.h"
#include "support/error_text.h"
#include "support/test_device.h"

namespace lra {

CudaLauncher<ExampleProduct> example_product = nullptr;
CudaLauncher<ExampleReverse> example_reverse = nullptr;
CudaLauncher<ExampleWarp> example_warp = nullptr;
CudaLauncher<ExampleMistake> example_mistake = nullptr;

namespace {

class EmulatorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!TestDevice().emulated()) GTEST_SKIP() << "there is a GPU: kernels are tested there";
  }

  static std::vector<int> reversed(int blocks, int threads, bool barrier) {
    std::vector<int> in(static_cast<size_t>(blocks * threads)), out(in.size());
    std::iota(in.begin(), in.end(), 0);
    launch(example_reverse, {in.data(), out.data(), blocks, threads, barrier}, "reverse");
    return out;
  }
  static std::vector<int> expected_reverse(int blocks, int threads) {
    std::vector<int> out;
    for (int b = 0; b < blocks; ++b) {
      for (int i = threads - 1; i >= 0; --i) out.push_back(b * threads + i);
    }
    return out;
  }
  static std::string error_of(Mistake mistake) {
    try {
      launch(example_mistake, {mistake}, "mistake");
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }
  // Of a product of tiles against the library's.
  static double error_of_product(bool transposed, bool waits) {
    const Tensor a = torch::randn({16, 16}).to(torch::kBFloat16),
                 b = torch::randn({16, 8}).to(torch::kBFloat16);
    const Tensor given = (transposed ? b.t() : b).contiguous(), c = torch::empty({16, 8});
    launch(example_product,
           {a.const_data_ptr(), given.const_data_ptr(), c.mutable_data_ptr<float>(), transposed, waits},
           "product");
    return (c.to(torch::kDouble) - a.to(torch::kDouble).mm(b.to(torch::kDouble))).abs().max().item<double>();
  }
};

TEST_F(EmulatorTest, MultipliesTilesAsTensorCoresDo) {
  EXPECT_LT(error_of_product(false, true), 1e-5);
  EXPECT_LT(error_of_product(true, true), 1e-5);
}

TEST_F(EmulatorTest, ShowsCopiesThatNobodyWaitedFor) { EXPECT_FALSE(error_of_product(false, false) < 1e-5); }

TEST_F(EmulatorTest, ThreadsMeetAtABarrier) {
  for (const int threads : {1, 31, 256, 1024}) {
    EXPECT_EQ(reversed(5, threads, true), expected_reverse(5, threads)) << threads;
  }
}

TEST_F(EmulatorTest, ShowsAMissingBarrier) { EXPECT_NE(reversed(5, 256, false), expected_reverse(5, 256)); }

TEST_F(EmulatorTest, LanesOfAWarpExchangeValues) {
  for (const int threads : {32, 64}) {
    std::vector<int> out(static_cast<size_t>(threads) * 6);
    launch(example_warp, {out.data(), threads}, "warp");
    for (int i = 0; i < threads; ++i) {
      const int lane = i % 32, warp = i - lane;
      unsigned thirds = 0, equal = 0;
      for (int other = 0; other < 32; ++other) {
        if ((warp + other) % 3 == 0) thirds |= 1u << other;
        if ((warp + other) % 5 == i % 5) equal |= 1u << other;
      }
      const std::vector<int> expected{warp + (lane ^ 5),        lane < 3 ? i : i - 3,
                                      lane % 8 > 4 ? i : i + 3, warp + lane / 4 * 4 + 2,
                                      static_cast<int>(thirds), static_cast<int>(equal)};
      EXPECT_EQ(std::vector<int>(out.begin() + i * 6, out.begin() + i * 6 + 6), expected) << i;
    }
  }
}

TEST_F(EmulatorTest, SaysWhoWaitsWhereWhenNobodyCanGoOn) {
  const std::string text = error_of(Mistake::kHalfAtTheBarrier);
  EXPECT_TRUE(says(text, "40 threads wait in __syncthreads at"));
  EXPECT_TRUE(says(text, "24 threads wait in team_barrier at"));
  EXPECT_TRUE(says(text, "example.cu:"));
}

TEST_F(EmulatorTest, AllowsNoBarrierOnTwoWaysAtOnce) {
  const std::string text = error_of(Mistake::kTwoBarriers);
  EXPECT_TRUE(says(text, "other threads wait for the same barrier elsewhere"));
}

TEST_F(EmulatorTest, WaitsForNoLaneThatHasEnded) {
  const std::string text = error_of(Mistake::kLaneThatEnded);
  EXPECT_TRUE(says(text, "31 threads wait in __syncwarp at"));
  EXPECT_TRUE(says(text, "33 threads have ended"));
}

TEST_F(EmulatorTest, ATrapIsAnError) {
  const std::string text = error_of(Mistake::kTrap);
  EXPECT_TRUE(says(text, "thread (7, 0, 0)"));
}

TEST_F(EmulatorTest, ProductsSeeNoTileThatIsNotShown) {
  const std::string text = error_of(Mistake::kHiddenTile);
  EXPECT_TRUE(says(text, "a tile was written and not shown to products"));
}

TEST_F(EmulatorTest, BlocksHaveTheLimitsOfTheHardware) {
  const std::string text = error_of(Mistake::kLargeBlock);
  EXPECT_TRUE(says(text, "CUDA error 9"));
}

}  // namespace
}  // namespace lra
