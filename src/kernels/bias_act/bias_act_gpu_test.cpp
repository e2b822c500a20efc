#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/torch_compat.h"
#include "batch/batch.h"
#include "kernels/bias_act/bias_act.h"

namespace lra {
namespace {

struct Case {
  int32_t positions;
  int64_t width;
  Activation activation;
  double p;
};

// Small and odd, aligned and not, several tiles side by side, more rows than the grid takes at a time.
const std::vector<Case> kCases{
    {1, 1, Activation::kGelu, 0},        {3, 7, Activation::kRelu, 0.3},
    {301, 128, Activation::kGelu, 0.1},  {777, 640, Activation::kGelu, 0.1},
    {9001, 512, Activation::kGelu, 0},   {130, 515, Activation::kGelu, 0.2},
    {3500, 1024, Activation::kRelu, 0},  {50, 2056, Activation::kGelu, 0.1},
    {29000, 24, Activation::kGelu, 0},   {900, 4096, Activation::kGelu, 0.1},
    {17, 4099, Activation::kRelu, 0.25},
};

struct Input {
  Tensor x, bias;
  Dropout dropout;
};

Input make_input(const Case& c) {
  torch::manual_seed(1);
  const Rows rows = lay_out({c.positions}, true, 3);
  return {(3 * torch::randn({c.positions, c.width})).to(torch::kBFloat16).to(torch::kDouble),
          torch::randn({c.width}).to(torch::kDouble),
          {c.p, 4, 7, torch::full({1}, 2, torch::kLong), rows.slots}};
}

// y, dx, d_bias; on the CPU in double.
std::vector<Tensor> results(const Input& in, const Case& c, const torch::Device& device, torch::Dtype type,
                            decltype(&bias_activation) f) {
  const Tensor x = in.x.to(device, type).detach().requires_grad_(true);
  const auto parameters = type == torch::kDouble ? torch::kDouble : torch::kFloat;
  const Tensor bias = in.bias.to(device, parameters).detach().requires_grad_(true);
  const Tensor y =
      f(x, bias, c.activation,
        {c.p, in.dropout.site, in.dropout.seed, in.dropout.step.to(device), in.dropout.slots.to(device)});
  const Tensor weights = torch::sin(torch::arange(y.numel(), torch::kDouble)).view(y.sizes());
  torch::autograd::backward({y}, {weights.to(torch::kBFloat16).to(device, type)});
  std::vector<Tensor> all{y.detach(), x.grad(), bias.grad()};
  for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble);
  return all;
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected, double tolerance,
                  const Case& c) {
  for (size_t i = 0; i < ours.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], tolerance, tolerance * scale))
        << "result " << i << " of [" << c.positions << ", " << c.width << "], p " << c.p << " differs by "
        << (ours[i] - expected[i]).abs().max().item<double>() << ", largest " << scale;
  }
}

TEST(BiasActGpuTest, InDoublePrecisionEqualsTheCpu) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    expect_close(results(in, c, torch::kCUDA, torch::kDouble, bias_activation),
                 results(in, c, torch::kCPU, torch::kDouble, bias_activation), 1e-12, c);
  }
}

TEST(BiasActGpuTest, InSinglePrecisionEqualsTheCpu) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    expect_close(results(in, c, torch::kCUDA, torch::kFloat, bias_activation),
                 results(in, c, torch::kCPU, torch::kFloat, bias_activation), 1e-5, c);
  }
}

TEST(BiasActGpuTest, InHalfPrecisionIsWithinItsRounding) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    expect_close(results(in, c, torch::kCUDA, torch::kBFloat16, bias_activation),
                 results(in, c, torch::kCPU, torch::kDouble, bias_activation_reference), 4e-3, c);
  }
}

TEST(BiasActGpuTest, GivesTheSameBitsEveryTime) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  const Case c{29000, 512, Activation::kGelu, 0.1};
  const Input in = make_input(c);
  const auto once = results(in, c, torch::kCUDA, torch::kBFloat16, bias_activation);
  const auto again = results(in, c, torch::kCUDA, torch::kBFloat16, bias_activation);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << i;
}

TEST(BiasActGpuTest, IsZeroOrTheIdentityFarOutAndPassesNotANumberOn) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  for (const auto type : {torch::kBFloat16, torch::kFloat}) {
    const Tensor x = torch::tensor({-100.f, 100.f, std::nanf("")}).view({1, 3}).to(torch::kCUDA, type);
    const Tensor y = bias_activation(x, torch::zeros({3}, torch::kCUDA), Activation::kGelu, {})
                         .to(torch::kCPU, torch::kFloat);
    EXPECT_FLOAT_EQ(y[0][0].item<float>(), 0);
    EXPECT_FLOAT_EQ(y[0][1].item<float>(), 100);
    EXPECT_TRUE(std::isnan(y[0][2].item<float>()));
  }
}

}  // namespace
}  // namespace lra
