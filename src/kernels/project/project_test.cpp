#include "kernels/project/project.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace lra {
namespace {

using torch::Tensor;

// Two weights, neighbours in one buffer or apart, held against plain products.
class ProjectTest : public testing::TestWithParam<bool> {
 protected:
  ProjectTest() {
    torch::manual_seed(1);
    x_ = torch::randn({7, 5}, torch::kDouble).requires_grad_(true);
    for (const int64_t rows : {int64_t{3}, int64_t{4}}) {
      const int64_t at = rows == 3 ? 0 : 15;
      weights_.push_back((GetParam() ? buffer_.narrow(0, at, rows * 5).view({rows, 5})
                                     : torch::randn({rows, 5}, torch::kDouble))
                             .detach()
                             .requires_grad_(true));
    }
    direction_ = torch::randn({7, 7}, torch::kDouble);
  }
  Tensor expected() const { return torch::cat({x_.mm(weights_[0].t()), x_.mm(weights_[1].t())}, 1); }
  std::vector<Tensor> gradients(const Tensor& y) const {
    return torch::autograd::grad({(y * direction_).sum()}, {x_, weights_[0], weights_[1]});
  }

  Tensor buffer_ = torch::randn({35}, torch::kDouble), x_, direction_;
  std::vector<Tensor> weights_;
};

TEST_P(ProjectTest, EqualsPlainProductsWithTheirGradients) {
  const Tensor y = project(x_, weights_), plain = expected();
  EXPECT_TRUE(torch::allclose(y, plain, 0, 1e-12));
  const auto ours = gradients(y), theirs = gradients(plain);
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(torch::allclose(ours[i], theirs[i], 0, 1e-12)) << i;
}

TEST_P(ProjectTest, AddsToGradientsThatAreThere) {
  const auto theirs = gradients(expected());
  const Tensor flat = torch::ones({35}, torch::kDouble);
  weights_[0].mutable_grad() = flat.narrow(0, 0, 15).view({3, 5});
  weights_[1].mutable_grad() = flat.narrow(0, 15, 20).view({4, 5});
  (project(x_, weights_) * direction_).sum().backward();
  EXPECT_TRUE(torch::allclose(flat, 1 + torch::cat({theirs[1].flatten(), theirs[2].flatten()}), 0, 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Neighbours, ProjectTest, testing::Bool());

TEST(ProjectCopiesTest, ReadsTheCopyInTheTypeOfTheActivations) {
  const Tensor buffer = torch::randn({20}, torch::kDouble), copies = buffer.to(torch::kFloat) + 1;
  const Tensor weight = buffer.narrow(0, 4, 12).view({3, 4}).requires_grad_(true), x = torch::randn({5, 4});
  EXPECT_TRUE(torch::allclose(project(x, {weight}, copies), x.mm(copies.narrow(0, 4, 12).view({3, 4}).t())));
}

}  // namespace
}  // namespace lra
