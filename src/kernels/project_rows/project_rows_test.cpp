#include "kernels/project_rows/project_rows.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

using torch::Tensor;

class ProjectRowsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    rows_ = lay_out({5, 1, 7}, GetParam());
    x_ = torch::randn({rows_.positions, 6}, torch::kDouble).requires_grad_(true);
    weight_ = torch::randn({9, 4}, torch::kDouble).requires_grad_(true);
  }
  std::vector<Tensor> results(Tensor (*core)(const Tensor&, const Tensor&, const Rows&)) {
    x_.mutable_grad() = weight_.mutable_grad() = Tensor();
    const Tensor y = core(x_, weight_, rows_);
    (y * torch::cos(torch::arange(y.numel(), torch::kDouble)).view(y.sizes())).sum().backward();
    return {y.detach(), x_.grad(), weight_.grad()};
  }
  void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::allclose(a[i], b[i], 0, 1e-12)) << i;
  }

  Rows rows_;
  Tensor x_, weight_;
};

TEST_P(ProjectRowsTest, EqualsTheSumOverPositions) {
  const auto reference = results(project_rows_reference);
  EXPECT_EQ(reference[0].sizes(), (std::vector<int64_t>{12, 6}));
  expect_equal(results(project_rows), reference);
}

TEST_P(ProjectRowsTest, OnAGridEqualsItToo) {
  expect_equal(results(project_rows_grid), results(project_rows_reference));
}

TEST_P(ProjectRowsTest, AddsToTheGradientThatIsThere) {
  const Tensor expected = results(project_rows_reference)[2] + 1;
  weight_.mutable_grad() = torch::ones_like(weight_);
  const Tensor y = project_rows(x_, weight_, rows_);
  (y * torch::cos(torch::arange(y.numel(), torch::kDouble)).view(y.sizes())).sum().backward();
  EXPECT_TRUE(torch::allclose(weight_.grad(), expected, 0, 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Packed, ProjectRowsTest, testing::Bool());

}  // namespace
}  // namespace lra
