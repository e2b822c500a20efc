#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/shared_keys/shared_keys.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  int64_t positions, heads, width;
};

// Fewer octets than a team has threads, odd widths, more than a warp's octets, more vectors than a block.
const std::vector<Case> kCases{{1, 1, 1},    {3, 2, 7},   {301, 4, 64}, {77, 3, 24},
                               {130, 1, 17}, {9, 2, 256}, {21, 1, 360}, {5, 3, 515}};

Tensor make_input(const Case& c) {
  torch::manual_seed(1);
  Tensor qv = (2 * torch::randn({c.positions, 2, c.heads, c.width})).to(torch::kBFloat16).to(torch::kDouble);
  qv[c.positions / 2].zero_();  // a position without a direction
  return qv;
}

// qkv and the gradient of qv; on the CPU in double precision.
std::vector<Tensor> results(const Tensor& in, bool unit, const torch::Device& device, torch::Dtype type,
                            decltype(&shared_keys) f) {
  const Tensor qv = in.to(device, type).detach().requires_grad_(true), y = f(qv, unit);
  const Tensor weights = torch::sin(torch::arange(y.numel(), torch::kDouble)).view(y.sizes());
  std::vector<Tensor> all{
      y.detach(), torch::autograd::grad({y}, {qv}, {weights.to(torch::kBFloat16).to(device, type)})[0]};
  for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble);
  return all;
}

// `tolerance`: of each element, and of the largest of its vector, since gradients are sums that may cancel.
void expect_near_the_definition(torch::Dtype type, double tolerance) {
  const TestDevice device;
  for (const Case& c : kCases) {
    for (const bool unit : {true, false}) {
      const Tensor in = make_input(c);
      const auto ours = device.run([&] { return results(in, unit, device, type, shared_keys); }),
                 expected = results(in, unit, torch::kCPU, torch::kDouble, shared_keys_reference);
      for (size_t i = 0; i < ours.size(); ++i) {
        const Tensor allowed = tolerance * (expected[i].abs() + expected[i].abs().amax(-1, true)) + 1e-30;
        EXPECT_TRUE(((ours[i] - expected[i]).abs() <= allowed).all().item<bool>())
            << "result " << i << " of [" << c.positions << ", 2, " << c.heads << ", " << c.width << "], unit "
            << unit << " differs by " << (ours[i] - expected[i]).abs().max().item<double>();
      }
    }
  }
}

TEST(SharedKeysGpuTest, InDoublePrecisionEqualTheDefinition) {
  expect_near_the_definition(torch::kDouble, 1e-13);
}
TEST(SharedKeysGpuTest, InSinglePrecisionAreWithinItsRounding) {
  expect_near_the_definition(torch::kFloat, 1e-6);
}
TEST(SharedKeysGpuTest, InHalfPrecisionAreRoundedOnce) { expect_near_the_definition(torch::kBFloat16, 2e-3); }

TEST(SharedKeysGpuTest, QueriesAndValuesAreCopied) {
  const TestDevice device;
  const Tensor in = make_input({40, 3, 24}).to(torch::kBFloat16);
  const Tensor out = device.run([&] { return shared_keys(device.copy(in), true); }).to(torch::kCPU);
  EXPECT_TRUE(torch::equal(out.select(1, 0), in.select(1, 0)));
  EXPECT_TRUE(torch::equal(out.select(1, 2), in.select(1, 1)));
}

}  // namespace
}  // namespace lra
