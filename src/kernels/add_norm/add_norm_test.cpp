#include "kernels/add_norm/add_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "batch/batch.h"

namespace lra {
namespace {

struct Case {
  std::vector<int32_t> lengths;
  int64_t width;
  bool branch, bias;
  double p;
};

AddNormInput make_input(const Case& c) {
  torch::manual_seed(1);
  const Rows rows = lay_out(c.lengths, true, 3);
  const auto real = torch::TensorOptions(torch::kDouble);
  AddNormInput in;
  in.x = 2 * torch::randn({rows.positions, c.width}, real) + 0.5;
  if (c.branch) in.branch = torch::randn({rows.positions, c.width}, real);
  if (c.bias) in.bias = torch::randn({c.width}, real);
  in.dropout = {c.p, 4, 7, torch::full({1}, 2, torch::kLong), rows.slots};
  in.weight = 1 + 0.3 * torch::randn({c.width}, real);
  in.offset = torch::randn({c.width}, real);
  return in;
}

// The same numbers in another type, as leaves that want gradients.
AddNormInput leaves(const AddNormInput& in, torch::Dtype type) {
  AddNormInput out = in;
  for (Tensor* t : {&out.x, &out.branch, &out.bias, &out.weight, &out.offset}) {
    if (t->defined()) *t = t->detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true);
  }
  return out;
}

Tensor weighting(const Tensor& like, double step) {
  return torch::sin(step * torch::arange(like.numel(), torch::kDouble))
      .view(like.sizes())
      .to(like.scalar_type());
}

enum Use { kSum = 1, kNormed = 2 };

// sum, normed and the gradients of all inputs under a fixed weighting of the outputs that are used.
std::vector<Tensor> results(const AddNormInput& given, torch::Dtype type, decltype(&add_norm) f,
                            int use = kSum | kNormed) {
  const AddNormInput in = leaves(given, type);
  const AddNormOutput out = f(in);
  Tensor loss = torch::zeros({}, type);
  if (use & kSum) loss = loss + (out.sum * weighting(out.sum, 1)).sum();
  if (use & kNormed) loss = loss + (out.normed * weighting(out.normed, 0.7)).sum();
  loss.backward();
  std::vector<Tensor> all{out.sum.detach(), out.normed.detach()};
  for (const Tensor& t : {in.x, in.branch, in.bias, in.weight, in.offset}) {
    if (t.defined()) all.push_back(t.grad().defined() ? t.grad() : torch::zeros_like(t));
  }
  for (Tensor& t : all) t = t.to(torch::kDouble);
  return all;
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected, double rtol,
                  double atol) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    const double scale = 1 + expected[i].abs().max().item<double>();
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], rtol, atol * scale))
        << "result " << i << " differs by " << (ours[i] - expected[i]).abs().max().item<double>();
  }
}

class AddNormTest : public testing::TestWithParam<Case> {};

TEST_P(AddNormTest, EqualsItsDefinitionInDoublePrecision) {
  const AddNormInput in = make_input(GetParam());
  expect_close(results(in, torch::kDouble, add_norm), results(in, torch::kDouble, add_norm_reference), 1e-9,
               1e-11);
}

TEST_P(AddNormTest, InSinglePrecisionIsWithinItsRounding) {
  const AddNormInput in = make_input(GetParam());
  expect_close(results(in, torch::kFloat, add_norm), results(in, torch::kDouble, add_norm_reference), 1e-4,
               1e-5);
}

TEST_P(AddNormTest, GradientsHoldWhenOnlyOneOutputIsUsed) {
  const AddNormInput in = make_input(GetParam());
  for (const int use : {kSum, kNormed}) {
    expect_close(results(in, torch::kDouble, add_norm, use),
                 results(in, torch::kDouble, add_norm_reference, use), 1e-9, 1e-11);
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return "D" + std::to_string(c.width) + (c.branch ? "Branch" : "") + (c.bias ? "Bias" : "") +
         (c.p > 0 ? "Dropout" : "");
}

INSTANTIATE_TEST_SUITE_P(Sizes, AddNormTest,
                         testing::Values(Case{{5, 3, 5}, 7, true, true, 0.3}, Case{{1}, 33, true, true, 0},
                                         Case{{100, 61, 1}, 160, true, true, 0.1},
                                         Case{{65}, 64, true, false, 0.5},
                                         Case{{64, 64}, 128, true, false, 0},
                                         Case{{3, 9}, 515, false, false, 0}, Case{{2}, 4096, true, true, 0.2},
                                         Case{{67}, 16, false, false, 0}, Case{{4}, 1, true, true, 0}),
                         case_name);

TEST(AddNormSumTest, IsXItselfWithoutABranch) {
  const AddNormInput in = leaves(make_input({{4, 2}, 24, false, false, 0}), torch::kFloat);
  EXPECT_EQ(add_norm(in).sum.const_data_ptr(), in.x.const_data_ptr());
  const torch::NoGradGuard guard;
  EXPECT_TRUE(add_norm(in).sum.is_same(in.x));
}

TEST(AddNormSumTest, WithoutABranchItIsMadeOfAnXThatIsNotALeaf) {
  const AddNormInput in = make_input({{4, 2}, 24, false, false, 0});
  const auto gradient = [&](decltype(&add_norm) f) {
    AddNormInput at = leaves(in, torch::kDouble);
    const Tensor leaf = at.x;
    at.x = leaf * 3;
    const AddNormOutput out = f(at);
    (out.sum * weighting(out.sum, 1) + out.normed * weighting(out.normed, 0.7) + at.x.pow(2))
        .sum()
        .backward();
    return leaf.grad();
  };
  EXPECT_TRUE(torch::allclose(gradient(add_norm), gradient(add_norm_reference), 1e-9, 1e-10));
}

TEST(AddNormGradientTest, IsAddedWhereAParameterHasOne) {
  const AddNormInput given = make_input({{70}, 40, true, true, 0.1});
  const auto expected = results(given, torch::kDouble, add_norm_reference);
  const AddNormInput in = leaves(given, torch::kDouble);
  for (const Tensor& t : {in.bias, in.weight, in.offset}) t.mutable_grad() = torch::ones_like(t.detach());
  const Tensor before = in.weight.grad();
  const AddNormOutput out = add_norm(in);
  ((out.sum * weighting(out.sum, 1)).sum() + (out.normed * weighting(out.normed, 0.7)).sum()).backward();
  EXPECT_TRUE(in.weight.grad().is_same(before));
  EXPECT_TRUE(torch::allclose(in.bias.grad(), 1 + expected[4], 1e-9, 1e-9));
  EXPECT_TRUE(torch::allclose(in.weight.grad(), 1 + expected[5], 1e-9, 1e-9));
  EXPECT_TRUE(torch::allclose(in.offset.grad(), 1 + expected[6], 1e-9, 1e-9));
}

TEST(AddNormGradientTest, IsOneTensorForXAndBranchWithoutDropout) {
  const AddNormInput in = leaves(make_input({{9}, 40, true, true, 0}), torch::kFloat);
  const AddNormOutput out = add_norm(in);
  const auto gradients = torch::autograd::grad({out.sum.sum() + out.normed.sum()}, {in.x, in.branch});
  EXPECT_EQ(gradients[0].const_data_ptr(), gradients[1].const_data_ptr());
}

TEST(AddNormGradientTest, DoesNotDependOnTheNumberOfThreads) {
  const AddNormInput in = make_input({{300, 211}, 72, true, true, 0.1});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = results(in, torch::kFloat, add_norm);
  at::set_num_threads(3);
  const auto three = results(in, torch::kFloat, add_norm);
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

TEST(AddNormInferenceTest, GivesTheSameNumbers) {
  const AddNormInput in = leaves(make_input({{5, 8}, 48, true, true, 0.1}), torch::kFloat);
  const AddNormOutput trained = add_norm(in);
  const c10::InferenceMode guard;
  const AddNormOutput out = add_norm(in);
  EXPECT_FALSE(out.normed.requires_grad());
  EXPECT_TRUE(torch::equal(out.normed, trained.normed.detach()));
}

TEST(AddNormPrecisionTest, HoldsFarFromZero) {
  AddNormInput in = make_input({{20}, 256, false, false, 0});
  in.x = in.x + 1000;
  const Tensor rounded = in.x.to(torch::kFloat).to(torch::kDouble);
  const AddNormInput single = leaves(in, torch::kFloat);
  in.x = rounded;
  EXPECT_TRUE(torch::allclose(add_norm(single).normed.detach().to(torch::kDouble),
                              add_norm_reference(in).normed, 1e-3, 1e-3));
}

}  // namespace
}  // namespace lra
