#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/sorting_matrix/sorting_matrix.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  int64_t rows, blocks, heads, iters;
  bool noisy = false;
  double spread = 3;
};

// One block and many, rows that have fewer than others, and what no longer fits into shared memory.
const std::vector<Case> kCases{
    {1, 1, 1, 1},  {3, 5, 2, 8}, {2, 37, 3, 4, true}, {2, 64, 1, 2, true}, {4, 9, 2, 20, false, 40},
    {1, 170, 1, 2}};

class SortingMatrixGpuTest : public testing::Test {
 protected:
  static SortingMatrixInput make(const Case& c) {
    torch::manual_seed(2);
    SortingMatrixInput in;
    std::vector<int32_t> lengths;
    for (int64_t b = 0; b < c.rows; ++b) lengths.push_back(static_cast<int32_t>(3 + b));
    in.rows = lay_out(lengths, true, 11);
    in.scores = (torch::randn({c.rows, c.blocks, c.heads, c.blocks}) * c.spread).to(torch::kBFloat16);
    in.used = (c.blocks - torch::arange(c.rows) % c.blocks).to(torch::kInt);
    in.temperature = 0.75, in.iters = c.iters, in.noisy = c.noisy;
    in.noise = {7, 99, torch::full({1}, 3, torch::kLong)};
    return in;
  }

  // P and the gradient of the scores, in double precision.
  template <class F>
  static std::vector<Tensor> results(SortingMatrixInput in, torch::Dtype type, const torch::Device& device,
                                     const F& f) {
    const auto move = [&](Tensor& t) { t = t.to(t.options().device(device), false, /*copy=*/true); };
    for (Tensor* t : {&in.used, &in.rows.offsets, &in.rows.lengths, &in.rows.slots, &in.noise.step}) move(*t);
    // As a model has them: more columns than there are blocks.
    const Tensor wide =
        torch::constant_pad_nd(in.scores, {0, 3}).to(device, type).detach().requires_grad_(true);
    in.scores = wide.narrow(3, 0, in.scores.size(3));
    const Tensor P = f(in);
    const Tensor above = torch::sin(torch::arange(P.numel(), torch::kDouble)).view(P.sizes());
    const auto d = torch::autograd::grad({P}, {wide}, {above.to(torch::kBFloat16).to(device, type)});
    return {P.detach().cpu().to(torch::kDouble), d[0].cpu().to(torch::kDouble)};
  }

  void expect_near_the_definition(torch::Dtype type, double tolerance) const {
    for (const Case& c : kCases) {
      const SortingMatrixInput in = make(c);
      const auto ours = device_.run([&] { return results(in, type, device_, sorting_matrix); }),
                 expected = results(in, torch::kDouble, torch::kCPU, sorting_matrix_reference);
      for (size_t i = 0; i < ours.size(); ++i) {
        const double allowed = tolerance * (expected[i].abs().max().item<double>() + 1e-6);
        EXPECT_LE((ours[i] - expected[i]).abs().max().item<double>(), allowed)
            << "result " << i << " of " << c.blocks << " blocks";
      }
    }
  }

  const TestDevice device_;
};

TEST_F(SortingMatrixGpuTest, EqualsTheDefinition) { expect_near_the_definition(torch::kDouble, 1e-9); }

TEST_F(SortingMatrixGpuTest, EqualsTheDefinitionInFloat) { expect_near_the_definition(torch::kFloat, 1e-3); }

TEST_F(SortingMatrixGpuTest, EqualsTheDefinitionInBf16UpToItsRounding) {
  expect_near_the_definition(torch::kBFloat16, 1e-2);
}

TEST_F(SortingMatrixGpuTest, RowsAndColumnsSumToOneAfterManyIterations) {
  SortingMatrixInput in = make({2, 12, 2, 50, false, 1});
  in.used.fill_(12);
  const Tensor P = device_.run([&] {
    SortingMatrixInput there = in;
    for (Tensor* t : {&there.used, &there.rows.offsets, &there.rows.slots}) *t = device_.copy(*t);
    there.scores = device_.copy(in.scores.to(torch::kFloat));
    return sorting_matrix(there).cpu();
  });
  EXPECT_LT((P.sum(2) - 1).abs().max().item<float>(), 1e-3F);
  EXPECT_LT((P.sum(3) - 1).abs().max().item<float>(), 1e-5F);
}

}  // namespace
}  // namespace lra
