#include <map>

#include <gtest/gtest.h>

#include "kernels/rows/partial_sums.h"
#include "support/test_device.h"

namespace lra {
namespace {

using torch::Tensor;

// A parameter in training: its gradient is there already.
Tensor with_gradient(int64_t width, const TestDevice& device) {
  const auto options = torch::TensorOptions().device(device.device());
  Tensor parameter = torch::zeros({width}, options).requires_grad_(true);
  parameter.mutable_grad() = torch::ones({width}, options);
  return parameter;
}

class PartialSumsGpuTest : public testing::Test {
 protected:
  // Adds random parts to the gradients of these parameters and to what is expected of them.
  void add(const std::vector<Tensor>& parameters, int64_t parts) {
    const int64_t width = parameters.front().size(0);
    const Tensor partial = torch::randn({parts, static_cast<int64_t>(parameters.size()), width});
    std::vector<ParameterGradient> gradients;
    for (size_t i = 0; i < parameters.size(); ++i) {
      gradients.emplace_back(parameters[i]);
      Tensor& expected = expected_[parameters[i].unsafeGetTensorImpl()];
      if (!expected.defined()) expected = torch::ones({width}, torch::kDouble);
      expected += partial.select(1, static_cast<int64_t>(i)).to(torch::kDouble).sum(0);
    }
    const Tensor there = device_.copy(partial);
    device_.run([&] { add_partial_sums(there, gradients); });
  }
  void holds(const Tensor& parameter) {
    const Tensor found = parameter.grad().to(torch::kCPU, torch::kDouble);
    EXPECT_TRUE(torch::allclose(found, expected_.at(parameter.unsafeGetTensorImpl()), 1e-5, 1e-4));
  }

  const TestDevice device_;
  std::map<const void*, Tensor> expected_;
};

TEST_F(PartialSumsGpuTest, AddsEachOutputToItsGradient) {
  const Tensor a = with_gradient(37, device_), b = with_gradient(37, device_);
  add({a, b}, 70);
  holds(a);
  holds(b);
}

TEST_F(PartialSumsGpuTest, PutOffUntilTheEnd) {
  const Tensor a = with_gradient(9, device_);
  PartialSumsTogether sums;
  add({a}, 5);
  EXPECT_TRUE(a.grad().cpu().equal(torch::ones({9})));
  device_.run([&] { sums.finish(); });
  holds(a);
}

TEST_F(PartialSumsGpuTest, SumsOfManySizesTogether) {
  std::vector<Tensor> parameters;
  PartialSumsTogether sums;
  for (int64_t i = 0; i < 120; ++i) {  // more than one launch takes
    parameters.push_back(with_gradient(1 + i % 13, device_));
    add({parameters.back()}, 1 + i % 3);
  }
  device_.run([&] { sums.finish(); });
  for (const Tensor& parameter : parameters) holds(parameter);
}

TEST_F(PartialSumsGpuTest, TwiceToTheSameGradient) {
  const Tensor a = with_gradient(12, device_);
  PartialSumsTogether sums;
  add({a}, 3);
  add({a}, 4);
  device_.run([&] { sums.finish(); });
  holds(a);
}

TEST_F(PartialSumsGpuTest, WhatAutogradIsGivenIsComplete) {
  const Tensor parameter = torch::zeros({6}, device_.device()).requires_grad_(true);
  const ParameterGradient gradient(parameter);
  PartialSumsTogether sums;
  const Tensor partial = torch::ones({8, 1, 6}, device_.device());
  device_.run([&] { add_partial_sums(partial, {gradient}); });
  EXPECT_TRUE(gradient.result.cpu().equal(torch::full({6}, 8.0F)));
}

TEST_F(PartialSumsGpuTest, AreNotPutOffTwice) {
  const PartialSumsTogether sums;
  EXPECT_THROW(PartialSumsTogether(), c10::Error);
}

}  // namespace
}  // namespace lra
