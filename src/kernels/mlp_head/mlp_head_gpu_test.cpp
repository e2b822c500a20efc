#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/mlp_head/mlp_head.h"
#include "kernels/mlp_head/mlp_head_arguments.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  int64_t B, I, F, C;
  int64_t offset;  // of the parameters, in a buffer that is aligned
};

// Small and odd, aligned and not, several tiles of every size, slices of every width, many classes.
const std::vector<Case> kCases{
    {1, 1, 1, 1, 0},     {3, 7, 5, 2, 1},      {32, 64, 32, 10, 0}, {33, 130, 37, 3, 3},
    {5, 300, 70, 11, 0}, {70, 129, 33, 40, 2}, {2, 20, 9, 1000, 1}, {100, 128, 128, 10, 0},
};
// A slice of 8 units forwards and one of 32 back, as at the sizes of models.
const Case kLarge{32, 200, 900, 2, 1};

const char* const kNames[] = {"logits",        "dx",           "d hidden_weight",
                              "d hidden_bias", "d out_weight", "d out_bias"};

// Every tensor, in double; on the CPU.
std::vector<Tensor> make_values(const Case& c) {
  torch::manual_seed(1);
  const auto random = [](torch::IntArrayRef shape, double scale = 1) {
    return (scale * torch::randn(shape)).to(torch::kDouble);
  };
  return {random({c.B, c.I}), random({c.F, c.I}, 1 / std::sqrt(c.I)), random({c.F}, 0.3),
          random({c.C, c.F}, 1 / std::sqrt(c.F)), random({c.C})};
}

// A leaf that is a view into a buffer, `offset` elements from its beginning.
Tensor leaf(const Tensor& values, const torch::Device& device, torch::Dtype type, int64_t offset) {
  const Tensor buffer = torch::empty({offset + values.numel()}, torch::TensorOptions(device).dtype(type));
  const Tensor view = buffer.narrow(0, offset, values.numel()).view(values.sizes());
  return view.copy_(values).requires_grad_(true);
}

MlpHeadInput make_input(const Case& c, const torch::Device& device, torch::Dtype type) {
  const auto values = make_values(c);
  const auto parameter = [&](size_t i) { return leaf(values[i], device, type, c.offset); };
  return {leaf(values[0], device, type, 0), parameter(1), parameter(2), parameter(3), parameter(4)};
}

Tensor weighting(const Tensor& logits) {
  return torch::sin(torch::arange(logits.numel(), torch::kDouble)).view(logits.sizes()).to(logits.options());
}

std::vector<Tensor> gathered(const Tensor& logits, const MlpHeadInput& in) {
  std::vector<Tensor> all{logits.detach(),       in.x.grad(),          in.hidden_weight.grad(),
                          in.hidden_bias.grad(), in.out_weight.grad(), in.out_bias.grad()};
  for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble, false, /*copy=*/true);
  return all;
}

std::vector<Tensor> device_results(const Case& c, torch::Dtype type) {
  const TestDevice device;
  const MlpHeadInput in = make_input(c, device, type);
  const Tensor logits = device.run([&] {
    const Tensor y = mlp_head(in);
    torch::autograd::backward({y}, {weighting(y.detach())});
    return y;
  });
  return gathered(logits, in);
}

std::vector<Tensor> reference_results(const Case& c) {
  const MlpHeadInput in = make_input(c, torch::kCPU, torch::kDouble);
  const Tensor logits = mlp_head_reference(in);
  torch::autograd::backward({logits}, {weighting(logits.detach())});
  return gathered(logits, in);
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected, double within,
                  const Case& c) {
  for (size_t i = 0; i < ours.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], within, within * scale))
        << kNames[i] << " of B " << c.B << ", I " << c.I << ", F " << c.F << ", C " << c.C << " differs by "
        << (ours[i] - expected[i]).abs().max().item<double>() << ", largest " << scale;
  }
}

TEST(MlpHeadGpuTest, InDoublePrecisionEqualsItsDefinition) {
  for (const Case& c : kCases)
    expect_close(device_results(c, torch::kDouble), reference_results(c), 1e-12, c);
}

TEST(MlpHeadGpuTest, InSinglePrecisionIsWithinItsRounding) {
  for (const Case& c : kCases) expect_close(device_results(c, torch::kFloat), reference_results(c), 1e-5, c);
  ASSERT_EQ(mlp_head_backward_plan({kLarge.B, kLarge.I, kLarge.F, kLarge.C, 4}).units, 32);
  expect_close(device_results(kLarge, torch::kFloat), reference_results(kLarge), 1e-5, kLarge);
}

// More rows than the backward pass has scratch for.
TEST(MlpHeadGpuTest, TakesRowsByParts) {
  const Case c{33, 1027, 2100, 1, 1};
  ASSERT_LT(mlp_head_backward_plan({c.B, c.I, c.F, c.C, 8}).rows, c.B);
  expect_close(device_results(c, torch::kDouble), reference_results(c), 1e-12, c);
}

TEST(MlpHeadGpuTest, GivesTheSameBitsEveryTime) {
  for (const Case& c : {kCases[3], kCases[7]}) {
    const auto once = device_results(c, torch::kFloat), again = device_results(c, torch::kFloat);
    for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << kNames[i];
  }
}

TEST(MlpHeadGpuTest, GivesARowTheSameLogitsInEveryBatch) {
  const TestDevice device;
  const MlpHeadInput in = make_input({70, 300, 200, 3, 1}, device, torch::kFloat);
  const torch::NoGradGuard guard;
  MlpHeadInput some = in;
  some.x = in.x.narrow(0, 40, 3);
  const auto [all, few] = device.run([&] { return std::pair(mlp_head(in), mlp_head(some)); });
  EXPECT_TRUE(torch::equal(all.narrow(0, 40, 3), few));
}

TEST(MlpHeadGpuTest, AddsToTheGradientsThatParametersHave) {
  const TestDevice device;
  for (const Case& c : {kCases[1], kCases[3]}) {  // sums of one tile of rows, and of several
    const MlpHeadInput in = make_input(c, device, torch::kDouble);
    const auto step = [&] { device.run([&] { mlp_head(in).sum().backward(); }); };
    step();
    const std::vector<Tensor> parameters{in.hidden_weight, in.hidden_bias, in.out_weight, in.out_bias};
    std::vector<Tensor> once, places;
    for (const Tensor& p : parameters) {
      once.push_back(p.grad().clone());
      places.push_back(p.grad());
    }
    step();
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(parameters[i].grad().is_same(places[i])) << kNames[i + 2];
      EXPECT_TRUE(torch::allclose(places[i], 2 * once[i], 1e-12, 0)) << kNames[i + 2];
    }
  }
}

TEST(MlpHeadGpuTest, GivesTheGradientsThatAreWantedAlone) {
  const TestDevice device;
  const auto expected = reference_results(kCases[3]);
  for (size_t wanted = 0; wanted < 5; ++wanted) {
    const MlpHeadInput in = make_input(kCases[3], device, torch::kDouble);
    const std::vector<Tensor> all{in.x, in.hidden_weight, in.hidden_bias, in.out_weight, in.out_bias};
    for (size_t i = 0; i < all.size(); ++i) all[i].requires_grad_(i == wanted);
    device.run([&] {
      const Tensor y = mlp_head(in);
      torch::autograd::backward({y}, {weighting(y.detach())});
    });
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].grad().defined(), i == wanted) << kNames[i + 1];
    EXPECT_TRUE(torch::allclose(all[wanted].grad().cpu(), expected[wanted + 1], 1e-11, 1e-11))
        << kNames[wanted + 1];
  }
}

TEST(MlpHeadGpuTest, PassesNotANumberOn) {
  const TestDevice device;
  const MlpHeadInput in = make_input(kCases[1], device, torch::kFloat);
  const torch::NoGradGuard guard;
  in.x[1][0].fill_(std::nanf(""));
  const Tensor logits = device.run([&] { return mlp_head(in); }).cpu();
  EXPECT_TRUE(logits[1].isnan().all().item<bool>());
  EXPECT_FALSE(logits[0].isnan().any().item<bool>());
}

TEST(MlpHeadGpuTest, OfNoRowsIsEmpty) {
  const TestDevice device;
  const MlpHeadInput in = make_input({0, 8, 4, 3, 0}, device, torch::kFloat);
  const Tensor logits = device.run([&] {
    const Tensor y = mlp_head(in);
    y.sum().backward();
    return y;
  });
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({0, 3}));
  EXPECT_EQ(in.hidden_weight.grad().abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace lra
