#include "kernels/mlp_head/mlp_head.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace lra {
namespace {

struct Shape {
  int64_t B, I, F, C;
};

MlpHeadInput make_input(const Shape& s) {
  torch::manual_seed(3);
  const auto random = [](torch::IntArrayRef shape) { return torch::randn(shape, torch::kDouble); };
  return {random({s.B, s.I}), random({s.F, s.I}), random({s.F}), random({s.C, s.F}), random({s.C})};
}

MlpHeadInput leaves(const MlpHeadInput& in, torch::Dtype type) {
  const auto leaf = [&](const Tensor& t) { return t.to(type, false, /*copy=*/true).requires_grad_(true); };
  return {leaf(in.x), leaf(in.hidden_weight), leaf(in.hidden_bias), leaf(in.out_weight), leaf(in.out_bias)};
}

// The logits and the gradients of all inputs under a fixed weighting of the logits, in double.
std::vector<Tensor> results(const MlpHeadInput& values, torch::Dtype type, decltype(&mlp_head) f) {
  const MlpHeadInput in = leaves(values, type);
  const Tensor logits = f(in);
  const Tensor weights = torch::sin(torch::arange(logits.numel(), torch::kDouble)).view(logits.sizes());
  (logits * weights.to(type)).sum().backward();
  std::vector<Tensor> all{logits.detach(),       in.x.grad(),          in.hidden_weight.grad(),
                          in.hidden_bias.grad(), in.out_weight.grad(), in.out_bias.grad()};
  for (Tensor& t : all) t = t.to(torch::kDouble);
  return all;
}

class MlpHeadTest : public testing::TestWithParam<Shape> {};

TEST_P(MlpHeadTest, EqualsItsDefinitionInDoublePrecision) {
  const MlpHeadInput in = make_input(GetParam());
  const auto ours = results(in, torch::kDouble, mlp_head),
             expected = results(in, torch::kDouble, mlp_head_reference);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-11, 1e-11)) << i;
}

TEST_P(MlpHeadTest, InSinglePrecisionIsWithinItsRounding) {
  const MlpHeadInput in = make_input(GetParam());
  const auto ours = results(in, torch::kFloat, mlp_head),
             expected = results(in, torch::kDouble, mlp_head_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-4, 1e-5 * scale))
        << i << ": " << (ours[i] - expected[i]).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, MlpHeadTest,
                         testing::Values(Shape{1, 1, 1, 1}, Shape{7, 13, 5, 3}, Shape{33, 64, 128, 10},
                                         Shape{2, 30, 17, 100}));

TEST(MlpHeadDefinitionTest, IsTwoProductsWithAReluBetween) {
  const auto real = [](const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); };
  const Tensor x = real({1, 2}).view({1, 2}), hidden_weight = real({1, 1, -1, -1}).view({2, 2}),
               hidden_bias = real({0.5, 1}), out_weight = real({2, 100}).view({1, 2}), out_bias = real({3});
  for (const auto f : {mlp_head, mlp_head_reference}) {
    const Tensor logits = f({x, hidden_weight, hidden_bias, out_weight, out_bias});
    EXPECT_DOUBLE_EQ(logits.item<double>(), 2 * 3.5 + 100 * 0 + 3);
  }
}

TEST(MlpHeadDefinitionTest, HasTheGradientOfFiniteDifferences) {
  const MlpHeadInput in = leaves(make_input({3, 4, 6, 2}), torch::kDouble);
  const auto loss = [&] { return mlp_head_reference(in).square().sum(); };
  loss().backward();
  constexpr double kStep = 1e-6;
  for (const Tensor& t : {in.x, in.hidden_weight, in.hidden_bias, in.out_weight, in.out_bias}) {
    const torch::NoGradGuard guard;
    const Tensor flat = t.view(-1), gradient = t.grad().view(-1);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      flat[i] += kStep;
      const double above = loss().item<double>();
      flat[i] -= 2 * kStep;
      const double below = loss().item<double>();
      flat[i] += kStep;
      EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * kStep), 1e-5);
    }
  }
}

TEST(MlpHeadGradientTest, IsAddedWhereAParameterHasOne) {
  const MlpHeadInput in = leaves(make_input({5, 9, 12, 2}), torch::kDouble);
  mlp_head(in).sum().backward();
  const Tensor once = in.hidden_weight.grad().clone(), place = in.hidden_weight.grad();
  mlp_head(in).sum().backward();
  EXPECT_TRUE(in.hidden_weight.grad().is_same(place));
  EXPECT_TRUE(torch::allclose(place, 2 * once, 1e-12, 0));
}

TEST(MlpHeadInferenceTest, GivesTheSameNumbers) {
  const MlpHeadInput in = leaves(make_input({5, 9, 12, 2}), torch::kFloat);
  const Tensor trained = mlp_head(in);
  const c10::InferenceMode guard;
  const Tensor logits = mlp_head(in);
  EXPECT_FALSE(logits.requires_grad());
  EXPECT_TRUE(torch::equal(logits, trained.detach()));
}

TEST(MlpHeadErrorTest, NamesWhatDoesNotFit) {
  const MlpHeadInput good = make_input({2, 6, 4, 3});
  const auto complaint = [&](const auto& spoil) -> std::string {
    MlpHeadInput in = good;
    spoil(in);
    try {
      mlp_head(in);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  };
  EXPECT_EQ(complaint([](MlpHeadInput&) {}), "");
  EXPECT_NE(complaint([](auto& in) {
              in.hidden_bias = torch::zeros({5}, torch::kDouble);
            }).find("[mlp_head] hidden_bias is Double [5], expected Double [4]"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& in) { in.out_weight = in.out_weight.to(torch::kFloat); }).find("out_weight"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& in) {
              in.out_weight = torch::zeros({3, 5}, torch::kDouble);
            }).find("out_weight is Double [3, 5], expected Double [3, 4]"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& in) { in.x = in.x.unsqueeze(0); }).find("x must be [B, I]"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& in) {
              in.hidden_weight = in.hidden_weight.t().contiguous().t();
            }).find("hidden_weight is not contiguous"),
            std::string::npos);
}

}  // namespace
}  // namespace lra
