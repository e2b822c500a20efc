#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "batch/batch.h"
#include "kernels/add_norm/add_norm.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  int32_t positions;
  int64_t width;
  bool branch, bias;
  double p;
};

// Small, odd and large; each kernel of row_team.cuh, aligned and not; more rows than a grid has teams.
const std::vector<Case> kCases{
    {1, 1, true, true, 0},      {3, 7, true, true, 0.3},      {37, 64, true, true, 0.1},
    {29000, 40, true, true, 0}, {301, 128, true, false, 0.1}, {777, 160, true, true, 0.1},
    {9001, 256, true, true, 0}, {5000, 257, true, true, 0.2}, {13, 512, false, false, 0},
    {3500, 512, true, true, 0}, {130, 515, false, false, 0},  {1000, 1024, true, true, 0.1},
    {50, 1023, true, true, 0},  {900, 4096, true, true, 0.1}, {7, 3001, true, true, 0.2},
};

AddNormInput make_input(const Case& c) {
  torch::manual_seed(1);
  const Rows rows = lay_out({c.positions}, true, 3);
  const auto real = torch::TensorOptions(torch::kDouble);
  AddNormInput in;
  in.x = 2 * torch::randn({c.positions, c.width}, real) + 0.5;
  if (c.branch) in.branch = torch::randn({c.positions, c.width}, real);
  if (c.bias) in.bias = torch::randn({c.width}, real);
  in.dropout = {c.p, 4, 7, torch::full({1}, 2, torch::kLong), rows.slots};
  in.weight = 1 + 0.3 * torch::randn({c.width}, real);
  in.offset = torch::randn({c.width}, real);
  return in;
}

AddNormInput moved(const AddNormInput& in, const torch::Device& device, torch::Dtype activations,
                   torch::Dtype parameters) {
  AddNormInput out = in;
  for (Tensor* t : {&out.x, &out.branch}) {
    if (t->defined()) *t = t->to(device, activations).detach().requires_grad_(true);
  }
  for (Tensor* t : {&out.bias, &out.weight, &out.offset}) {
    if (t->defined()) *t = t->to(device, parameters).detach().requires_grad_(true);
  }
  out.dropout.step = in.dropout.step.to(device);
  out.dropout.slots = in.dropout.slots.to(device);
  return out;
}

// sum, normed, then gradients of x, branch, bias, weight, offset where there are such; on the CPU in double.
std::vector<Tensor> results(const AddNormInput& in, decltype(&add_norm) f, bool use_sum = true) {
  const AddNormOutput out = f(in);
  const auto weighting = [](const Tensor& like, double step) {
    const Tensor w = torch::sin(step * torch::arange(like.numel(), torch::kDouble)).view(like.sizes());
    return w.to(torch::kBFloat16).to(like.device(), like.scalar_type());
  };
  std::vector<Tensor> outputs{out.normed}, weights{weighting(out.normed, 0.7)};
  if (use_sum) {
    outputs.push_back(out.sum);
    weights.push_back(weighting(out.sum, 1));
  }
  torch::autograd::backward(outputs, weights);
  std::vector<Tensor> all{out.sum.detach(), out.normed.detach()};
  for (const Tensor& t : {in.x, in.branch, in.bias, in.weight, in.offset}) {
    if (t.defined()) all.push_back(t.grad());
  }
  for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble);
  return all;
}

// The same of what the kernels make of it.
std::vector<Tensor> device_results(const AddNormInput& in, torch::Dtype activations, torch::Dtype parameters,
                                   bool use_sum = true) {
  const TestDevice device;
  return device.run([&] { return results(moved(in, device, activations, parameters), add_norm, use_sum); });
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected, double tolerance,
                  const Case& c) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], tolerance, tolerance * scale))
        << "result " << i << " of [" << c.positions << ", " << c.width << "], p " << c.p << " differs by "
        << (ours[i] - expected[i]).abs().max().item<double>() << ", largest " << scale;
  }
}

TEST(AddNormGpuTest, InDoublePrecisionEqualsTheCpu) {
  for (const Case& c : kCases) {
    const AddNormInput in = make_input(c);
    expect_close(device_results(in, torch::kDouble, torch::kDouble),
                 results(moved(in, torch::kCPU, torch::kDouble, torch::kDouble), add_norm), 1e-11, c);
  }
}

TEST(AddNormGpuTest, InSinglePrecisionEqualsTheCpu) {
  for (const Case& c : kCases) {
    const AddNormInput in = make_input(c);
    expect_close(device_results(in, torch::kFloat, torch::kFloat),
                 results(moved(in, torch::kCPU, torch::kFloat, torch::kFloat), add_norm), 2e-5, c);
  }
}

TEST(AddNormGpuTest, InHalfPrecisionIsWithinItsRounding) {
  for (const Case& c : kCases) {
    AddNormInput in = make_input(c);
    for (Tensor* t : {&in.x, &in.branch}) {
      if (t->defined()) *t = t->to(torch::kBFloat16).to(torch::kDouble);
    }
    if (c.width < 16) continue;  // the rounded sum decides too much of so short a row
    expect_close(device_results(in, torch::kBFloat16, torch::kFloat),
                 results(moved(in, torch::kCPU, torch::kDouble, torch::kDouble), add_norm_reference), 1e-2,
                 c);
  }
}

TEST(AddNormGpuTest, WithoutAGradientForTheSumEqualsTheCpu) {
  const Case c{777, 160, true, true, 0.1};
  const AddNormInput in = make_input(c);
  expect_close(device_results(in, torch::kFloat, torch::kFloat, false),
               results(moved(in, torch::kCPU, torch::kFloat, torch::kFloat), add_norm, false), 2e-5, c);
}

TEST(AddNormGpuTest, OnUnalignedMemoryEqualsTheCpu) {
  const TestDevice device;
  const Case c{100, 64, true, true, 0.1};
  const AddNormInput in = make_input(c);
  AddNormInput there = moved(in, device, torch::kFloat, torch::kFloat);
  const Tensor buffer = torch::empty({c.positions * c.width + 1}, there.x.options().requires_grad(false));
  const Tensor shifted = buffer.narrow(0, 1, c.positions * c.width).view({c.positions, c.width});
  shifted.copy_(there.x.detach());
  there.x = shifted.detach().requires_grad_(true);
  expect_close(device.run([&] { return results(there, add_norm); }),
               results(moved(in, torch::kCPU, torch::kFloat, torch::kFloat), add_norm), 2e-5, c);
}

TEST(AddNormGpuTest, GivesTheSameBitsEveryTime) {
  const AddNormInput in = make_input({29000, 256, true, true, 0.1});
  const auto once = device_results(in, torch::kBFloat16, torch::kFloat);
  const auto again = device_results(in, torch::kBFloat16, torch::kFloat);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << i;
}

TEST(AddNormGpuTest, AddsToTheGradientAParameterHas) {
  const TestDevice device;
  const Case c{301, 128, true, true, 0};
  const AddNormInput in = make_input(c);
  const auto expected = device_results(in, torch::kDouble, torch::kDouble);
  const AddNormInput there = moved(in, device, torch::kDouble, torch::kDouble);
  for (const Tensor& t : {there.bias, there.weight, there.offset})
    t.mutable_grad() = torch::ones_like(t.detach());
  const auto ours = device.run([&] { return results(there, add_norm); });
  for (size_t i = 4; i < 7; ++i) EXPECT_TRUE(torch::allclose(ours[i], 1 + expected[i], 1e-11, 1e-10)) << i;
}

}  // namespace
}  // namespace lra
