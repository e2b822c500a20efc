#include <gtest/gtest.h>

#include "kernels/product/product.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Sizes {
  int64_t M, K, N;
};

// Each of the forms of a projection, in bfloat16, against the same product in double.
class ProductGpuTest : public testing::Test {
 protected:
  Tensor random(int64_t rows, int64_t columns) const {
    return torch::randn({rows, columns}).to(torch::kBFloat16);
  }
  static double error(const Tensor& found, const Tensor& expected) {
    return ((found.to(torch::kCPU, torch::kDouble) - expected).norm() / expected.norm()).item<double>();
  }
  void holds(const Tensor& a, const Tensor& b) const {
    const Tensor expected = a.to(torch::kDouble).mm(b.to(torch::kDouble));
    const auto there = [&](const Tensor& x) {  // with the strides that it has here
      return x.is_contiguous() ? device_.copy(x) : device_.copy(x.t()).t();
    };
    const Tensor x = there(a), y = there(b);
    for (int time = 0; time < 2; ++time) {  // the second with what the first has chosen
      EXPECT_LT(error(device_.run([&] { return product(x, y); }), expected), 5e-3);
    }
    const Tensor sum = device_.copy(torch::ones(expected.sizes()));
    device_.run([&] {
      add_product(sum, x, y);
      return sum;
    });
    EXPECT_LT(error(sum, expected + 1), 1e-4);
  }

  const TestDevice device_;
};

class ProductSizesGpuTest : public ProductGpuTest, public testing::WithParamInterface<Sizes> {};

TEST_P(ProductSizesGpuTest, EqualsTheDefinitionWhicheverSideIsTransposed) {
  torch::manual_seed(2);
  const auto [M, K, N] = GetParam();
  holds(random(M, K), random(K, N));
  holds(random(M, K), random(N, K).t());
  holds(random(K, M).t(), random(K, N));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ProductSizesGpuTest,
                         testing::Values(Sizes{512, 64, 128}, Sizes{33, 17, 9}, Sizes{1, 40, 24},
                                         Sizes{96, 1, 8}, Sizes{9000, 24, 16}, Sizes{16, 9000, 40}));

TEST_F(ProductGpuTest, SizesCloseToEachOtherShareAChoice) {
  torch::manual_seed(3);
  for (const int64_t M : {9000, 9001, 16000}) holds(random(M, 24), random(24, 16));
}

TEST_F(ProductGpuTest, InADeterministicRunBitsAreTheSame) {
  torch::manual_seed(4);
  set_numerics(false, true);
  const Tensor a = device_.copy(random(9000, 72)), b = device_.copy(random(72, 40));
  const Tensor first = device_.run([&] { return product(a, b); });
  EXPECT_TRUE(torch::equal(first, device_.run([&] { return product(a, b); })));
  set_numerics(false, false);
  EXPECT_LT(error(first, a.cpu().to(torch::kDouble).mm(b.cpu().to(torch::kDouble))), 5e-3);
}

TEST(ProductGpuSliceTest, TakesColumnsOfAWiderMatrix) {
  const TestDevice device;
  const Tensor wide = torch::randn({40, 48}).to(torch::kBFloat16),
               b = torch::randn({16, 24}).to(torch::kBFloat16);
  const Tensor expected = wide.narrow(1, 8, 16).to(torch::kDouble).mm(b.to(torch::kDouble));
  const Tensor x = device.copy(wide).narrow(1, 8, 16), y = device.copy(b);
  const Tensor found = device.run([&] { return product(x, y); }).to(torch::kCPU, torch::kDouble);
  EXPECT_LT(((found - expected).norm() / expected.norm()).item<double>(), 5e-3);
}

}  // namespace
}  // namespace lra
