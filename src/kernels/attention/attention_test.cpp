#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

struct Case {
  int64_t B, L, H, P;
  bool padded;
  double dropout;
};

AttentionInput random_input(const Case& c, torch::Dtype type) {
  const auto tensor = [&] { return torch::randn({c.B, c.L, c.H, c.P}, type).requires_grad_(true); };
  AttentionInput in{tensor(), tensor(), tensor(), {}, c.dropout, 3, {9, torch::full({1}, 4, torch::kLong), 1}};
  if (c.padded) {
    in.lengths = torch::randint(1, c.L + 1, {c.B}, torch::kInt);
    in.lengths[0] = c.L;
  }
  return in;
}

// Output and the gradients of q, k and v under a fixed random weighting of the output.
std::vector<Tensor> results(const AttentionInput& in, Tensor (*core)(const AttentionInput&)) {
  for (const auto& t : {in.q, in.k, in.v}) t.mutable_grad() = Tensor();
  const Tensor out = core(in);
  const Tensor weights = torch::cos(torch::arange(out.numel(), out.options().requires_grad(false))).view(out.sizes());
  (out * weights).sum().backward();
  return {out.detach(), in.q.grad(), in.k.grad(), in.v.grad()};
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, EqualsItsDefinitionInDoublePrecision) {
  torch::manual_seed(1);
  const AttentionInput in = random_input(GetParam(), torch::kDouble);
  const auto ours = results(in, attention), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], reference[i], 1e-10, 1e-11)) << i << ": " << (ours[i] - reference[i]).abs().max();
  }
}

TEST_P(AttentionTest, InSinglePrecisionIsWithinItsRounding) {
  torch::manual_seed(2);
  const AttentionInput in = random_input(GetParam(), torch::kDouble);
  AttentionInput single = in;
  for (Tensor* t : {&single.q, &single.k, &single.v}) *t = t->detach().to(torch::kFloat).requires_grad_(true);
  const auto ours = results(single, attention), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kDouble), reference[i], 1e-4, 2e-5))
        << i << ": " << (ours[i] - reference[i]).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AttentionTest,
                         testing::Values(Case{2, 7, 3, 5, false, 0}, Case{3, 65, 2, 16, true, 0}, Case{1, 1, 1, 1, false, 0},
                                         Case{2, 131, 1, 8, true, 0.2}, Case{2, 33, 4, 9, false, 0.5},
                                         Case{1, 300, 2, 4, true, 0.1}));

TEST(AttentionEdgeTest, StaysFiniteForLargeScores) {
  AttentionInput in = random_input({1, 20, 1, 4, false, 0}, torch::kFloat);
  in.q = in.q.detach() * 1e3;
  EXPECT_TRUE(torch::isfinite(attention(in)).all().item<bool>());
}

TEST(AttentionEdgeTest, NotANumberIsPassedOn) {
  AttentionInput in = random_input({1, 20, 1, 4, false, 0}, torch::kFloat);
  in.k = in.k.detach().clone();
  in.k[0][3][0][0] = std::nanf("");
  EXPECT_TRUE(torch::isnan(attention(in)).all().item<bool>());
}

}  // namespace
}  // namespace lra
