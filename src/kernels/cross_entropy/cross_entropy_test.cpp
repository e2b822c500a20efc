#include "kernels/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

namespace lra {
namespace {

constexpr double kScale = 0.3;

CrossEntropy definition(const Tensor& logits, const Tensor& labels) {
  const Tensor x = logits.detach().requires_grad_(true);
  CrossEntropy out = cross_entropy_reference(x, labels);
  out.gradient = kScale * torch::autograd::grad({out.loss}, {x})[0];
  return out;
}

class CrossEntropyTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
 protected:
  void SetUp() override {
    torch::manual_seed(0);
    const auto [B, C] = GetParam();
    logits = 5 * torch::randn({B, C}, torch::kDouble);
    labels = torch::randint(C, {B}, torch::kLong);
    labels.narrow(0, 0, (B + 1) / 2).copy_(logits.argmax(1).narrow(0, 0, (B + 1) / 2));
  }
  Tensor logits, labels;
};

TEST_P(CrossEntropyTest, EqualsItsDefinitionInDoublePrecision) {
  const CrossEntropy ours = cross_entropy(logits, labels, kScale), expected = definition(logits, labels);
  EXPECT_TRUE(torch::allclose(ours.loss, expected.loss, 1e-12, 1e-12));
  EXPECT_TRUE(torch::equal(ours.correct, expected.correct));
  EXPECT_TRUE(torch::allclose(ours.gradient, expected.gradient, 1e-10, 1e-13));
}

TEST_P(CrossEntropyTest, InSinglePrecisionIsWithinItsRounding) {
  const CrossEntropy ours = cross_entropy(logits.to(torch::kFloat), labels, kScale),
                     expected = definition(logits, labels);
  EXPECT_TRUE(torch::allclose(ours.loss.to(torch::kDouble), expected.loss, 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(ours.gradient.to(torch::kDouble), expected.gradient, 1e-5, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(OddSizes, CrossEntropyTest,
                         testing::Values(std::pair<int64_t, int64_t>{1, 2},
                                         std::pair<int64_t, int64_t>{7, 10},
                                         std::pair<int64_t, int64_t>{33, 1000},
                                         std::pair<int64_t, int64_t>{300, 3}));

TEST(CrossEntropyEdgeTest, StaysFiniteForLargeLogits) {
  const Tensor x = torch::tensor({{1000.f, -1000.f}});
  EXPECT_FLOAT_EQ(cross_entropy(x, torch::tensor({1}, torch::kLong)).loss.item<float>(), 2000);
  EXPECT_FLOAT_EQ(cross_entropy(x, torch::tensor({0}, torch::kLong)).loss.item<float>(), 0);
}

TEST(CrossEntropyEdgeTest, CountsTheFirstOfEqualLogits) {
  const Tensor x = torch::zeros({2, 3});
  EXPECT_EQ(cross_entropy(x, torch::tensor({0, 1}, torch::kLong)).correct.item<int64_t>(), 1);
}

TEST(CrossEntropyEdgeTest, PassesNotANumberOn) {
  const Tensor x = torch::tensor({{0.f, std::nanf("")}});
  for (const int64_t label : {0, 1}) {
    const CrossEntropy found = cross_entropy(x, torch::tensor({label}, torch::kLong));
    EXPECT_TRUE(std::isnan(found.loss.item<float>()));
    EXPECT_EQ(found.correct.item<int64_t>(), 0);
  }
}

TEST(CrossEntropyEdgeTest, RefusesALabelThatIsNoClass) {
  EXPECT_THROW(cross_entropy(torch::zeros({2, 3}), torch::tensor({0, 3}, torch::kLong)), c10::Error);
}

TEST(CrossEntropyEdgeTest, WorksInInferenceMode) {
  const c10::InferenceMode inference;
  const Tensor labels = torch::tensor({0, 3}, torch::kLong);
  EXPECT_FLOAT_EQ(cross_entropy(torch::zeros({2, 4}), labels).loss.item<float>(), 2 * std::log(4.f));
}

}  // namespace
}  // namespace lra
