#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "batch/batch.h"
#include "kernels/bias_act/bias_act.h"
#include "support/test_device.h"

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

// The same of what the kernels make of it.
std::vector<Tensor> device_results(const Input& in, const Case& c, torch::Dtype type) {
  const TestDevice device;
  return device.run([&] { return results(in, c, device, type, bias_activation); });
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
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    expect_close(device_results(in, c, torch::kDouble),
                 results(in, c, torch::kCPU, torch::kDouble, bias_activation), 1e-12, c);
  }
}

TEST(BiasActGpuTest, InSinglePrecisionEqualsTheCpu) {
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    expect_close(device_results(in, c, torch::kFloat),
                 results(in, c, torch::kCPU, torch::kFloat, bias_activation), 1e-5, c);
  }
}

TEST(BiasActGpuTest, InHalfPrecisionIsWithinItsRounding) {
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    expect_close(device_results(in, c, torch::kBFloat16),
                 results(in, c, torch::kCPU, torch::kDouble, bias_activation_reference), 4e-3, c);
  }
}

TEST(BiasActGpuTest, GivesTheSameBitsEveryTime) {
  const Case c{29000, 512, Activation::kGelu, 0.1};
  const Input in = make_input(c);
  const auto once = device_results(in, c, torch::kBFloat16);
  const auto again = device_results(in, c, torch::kBFloat16);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << i;
}

TEST(BiasActGpuTest, IsZeroOrTheIdentityFarOutAndPassesNotANumberOn) {
  const TestDevice device;
  for (const auto type : {torch::kBFloat16, torch::kFloat}) {
    const Tensor x = torch::tensor({-100.f, 100.f, std::nanf("")}).view({1, 3}).to(device.device(), type);
    const Tensor bias = torch::zeros({3}, device.device());
    const Tensor y = device.run([&] { return bias_activation(x, bias, Activation::kGelu, {}); })
                         .to(torch::kCPU, torch::kFloat);
    EXPECT_FLOAT_EQ(y[0][0].item<float>(), 0);
    EXPECT_FLOAT_EQ(y[0][1].item<float>(), 100);
    EXPECT_TRUE(std::isnan(y[0][2].item<float>()));
  }
}

}  // namespace
}  // namespace lra
