#include "kernels/bias_act/bias_act.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "batch/batch.h"

namespace lra {
namespace {

struct Shape {
  std::vector<int32_t> lengths;
  int64_t width;
};

class BiasActTest : public testing::TestWithParam<std::tuple<Shape, Activation, double>> {
 protected:
  void SetUp() override {
    torch::manual_seed(0);
    const auto& [shape, activation, p] = GetParam();
    const Rows rows = lay_out(shape.lengths, true, 1);
    x_ = 3 * torch::randn({rows.positions, shape.width}, torch::kDouble);
    bias_ = torch::randn({shape.width}, torch::kDouble);
    dropout_ = {p, 4, 3, torch::full({1}, 2, torch::kLong), rows.slots};
    activation_ = activation;
  }

  // y, dx and d_bias under a fixed weighting of y, in double.
  std::vector<Tensor> results(torch::Dtype type, decltype(&bias_activation) f) const {
    const Tensor x = x_.to(type, false, true).requires_grad_(true);
    const Tensor bias = bias_.to(type, false, true).requires_grad_(true);
    const Tensor y = f(x, bias, activation_, dropout_);
    const Tensor weights = torch::sin(torch::arange(y.numel(), torch::kDouble)).view(y.sizes());
    (y * weights.to(type)).sum().backward();
    return {y.detach().to(torch::kDouble), x.grad().to(torch::kDouble), bias.grad().to(torch::kDouble)};
  }

  Tensor x_, bias_;
  Activation activation_ = Activation::kGelu;
  Dropout dropout_;
};

TEST_P(BiasActTest, EqualsItsDefinitionInDoublePrecision) {
  const auto ours = results(torch::kDouble, bias_activation),
             expected = results(torch::kDouble, bias_activation_reference);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-11, 1e-12)) << i;
}

TEST_P(BiasActTest, InSinglePrecisionIsWithinItsRounding) {
  const auto ours = results(torch::kFloat, bias_activation),
             expected = results(torch::kDouble, bias_activation_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-4, 1e-5))
        << i << ": " << (ours[i] - expected[i]).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, BiasActTest,
                         testing::Combine(testing::Values(Shape{{2, 3}, 5}, Shape{{1}, 1},
                                                          Shape{{3, 300}, 33}, Shape{{7, 7}, 128}),
                                          testing::Values(Activation::kGelu, Activation::kRelu),
                                          testing::Values(0.0, 0.25)));

TEST(BiasActEdgeTest, IsZeroOrTheIdentityFarOutAndPassesNotANumberOn) {
  const Tensor x = torch::tensor({-100.f, 100.f, std::nanf("")}).view({1, 3});
  for (const Activation activation : {Activation::kGelu, Activation::kRelu}) {
    const Tensor y = bias_activation(x, torch::zeros({3}), activation, {});
    EXPECT_FLOAT_EQ(y[0][0].item<float>(), 0);
    EXPECT_FLOAT_EQ(y[0][1].item<float>(), 100);
    EXPECT_TRUE(std::isnan(y[0][2].item<float>()));
  }
}

TEST(BiasActGradientTest, IsAddedWhereTheBiasHasOne) {
  const auto real = torch::TensorOptions(torch::kDouble);
  const Tensor x = torch::randn({70, 24}, real), bias = torch::randn({24}, real.requires_grad(true));
  bias_activation(x, bias, Activation::kGelu, {}).sum().backward();
  const Tensor once = bias.grad().clone(), place = bias.grad();
  bias_activation(x, bias, Activation::kGelu, {}).sum().backward();
  EXPECT_TRUE(bias.grad().is_same(place));
  EXPECT_TRUE(torch::allclose(bias.grad(), 2 * once, 1e-12, 0));
}

TEST(BiasActGradientTest, DoesNotDependOnTheNumberOfThreads) {
  const Tensor x = torch::randn({511, 72});
  const auto gradient = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const Tensor bias = torch::ones({72}, torch::requires_grad());
    bias_activation(x, bias, Activation::kGelu, {}).sum().backward();
    at::set_num_threads(before);
    return bias.grad();
  };
  EXPECT_TRUE(torch::equal(gradient(1), gradient(3)));
}

TEST(BiasActInferenceTest, GivesTheSameNumbers) {
  const Tensor x = torch::randn({5, 40}), bias = torch::randn({40}, torch::requires_grad());
  const Tensor trained = bias_activation(x, bias, Activation::kGelu, {});
  const c10::InferenceMode guard;
  const Tensor y = bias_activation(x, bias, Activation::kGelu, {});
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(torch::equal(y, trained.detach()));
}

}  // namespace
}  // namespace lra
