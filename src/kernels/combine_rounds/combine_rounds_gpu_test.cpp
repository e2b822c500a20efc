#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/combine_rounds/combine_rounds.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  int64_t positions, rounds, heads, width;
};

// One round, odd numbers of them, odd widths, more than a warp's octets, more heads than a block has.
const std::vector<Case> kCases{{1, 1, 1, 1},    {3, 2, 2, 7},   {301, 2, 4, 64}, {77, 3, 3, 24},
                               {130, 5, 1, 17}, {9, 2, 2, 256}, {21, 4, 1, 360}, {5, 64, 3, 515}};

struct Input {
  Tensor out, lse;
};

// Sums of weights far apart, as well as equal ones.
Input make_input(const Case& c) {
  torch::manual_seed(1);
  Input in{torch::randn({c.positions, c.rounds * c.heads, c.width}).to(torch::kBFloat16).to(torch::kDouble),
           torch::randn({c.positions, c.rounds * c.heads}).to(torch::kDouble)};
  in.lse *= torch::logspace(-1, 2, c.positions, 10, torch::kDouble).unsqueeze(1);
  in.lse[c.positions - 1].fill_(300);
  return in;
}

// y and the gradients of out and lse; on the CPU in double precision.
std::vector<Tensor> results(const Input& in, const Case& c, const torch::Device& device, torch::Dtype type,
                            decltype(&combine_rounds) f) {
  const Tensor out = in.out.to(device, type).detach().requires_grad_(true);
  const auto statistics = type == torch::kDouble ? torch::kDouble : torch::kFloat;
  const Tensor lse = in.lse.to(torch::kFloat).to(device, statistics).detach().requires_grad_(true);
  const Tensor y = f(out, lse, c.rounds);
  const Tensor weights = torch::sin(torch::arange(y.numel(), torch::kDouble)).view(y.sizes());
  std::vector<Tensor> all =
      torch::autograd::grad({y}, {out, lse}, {weights.to(torch::kBFloat16).to(device, type)});
  all.insert(all.begin(), y.detach());
  for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble);
  return all;
}

// tolerance[i]: of result i, of each element and of the largest.
void expect_near_the_definition(torch::Dtype type, const std::vector<double>& tolerance) {
  const TestDevice device;
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    const auto ours = device.run([&] { return results(in, c, device, type, combine_rounds); }),
               expected = results(in, c, torch::kCPU, torch::kDouble, combine_rounds_reference);
    for (size_t i = 0; i < ours.size(); ++i) {
      const Tensor allowed = tolerance[i] * (expected[i].abs() + 0.1 * expected[i].abs().max()) + 1e-30;
      EXPECT_EQ(ours[i].sizes(), expected[i].sizes());
      EXPECT_TRUE(((ours[i] - expected[i]).abs() <= allowed).all().item<bool>())
          << "result " << i << " of [" << c.positions << ", " << c.rounds << ", " << c.heads << ", "
          << c.width << "] differs by " << (ours[i] - expected[i]).abs().max().item<double>();
    }
  }
}

TEST(CombineRoundsGpuTest, InDoublePrecisionEqualsTheDefinition) {
  expect_near_the_definition(torch::kDouble, {1e-12, 1e-12, 1e-11});
}
TEST(CombineRoundsGpuTest, InSinglePrecisionIsWithinItsRounding) {
  expect_near_the_definition(torch::kFloat, {1e-5, 1e-5, 1e-4});
}
// Sums are in single precision, results rounded once; the gradient of lse is in single precision.
TEST(CombineRoundsGpuTest, InHalfPrecisionIsRoundedOnce) {
  expect_near_the_definition(torch::kBFloat16, {4e-3, 4e-3, 1e-4});
}

TEST(CombineRoundsGpuTest, ZerosStayZeros) {
  const TestDevice device;
  const Tensor y = device.run([&] {
    return combine_rounds(torch::zeros({5, 4, 8}, device.device()), torch::zeros({5, 4}, device.device()), 2);
  });
  EXPECT_TRUE(torch::equal(y.to(torch::kCPU), torch::zeros({5, 2, 8})));
}

}  // namespace
}  // namespace lra
