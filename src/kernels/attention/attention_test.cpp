#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

struct Case {
  std::vector<int32_t> lengths;
  int64_t H, P;
  bool packed;
  double dropout;
  bool causal = false;
};

AttentionInput random_input(const Case& c, torch::Dtype type) {
  const Rows rows = lay_out(c.lengths, c.packed, 1);
  return {torch::randn({rows.positions, 3, c.H, c.P}, type).requires_grad_(true), rows,
          Dropout{c.dropout, 3, 9, torch::full({1}, 4, torch::kLong), rows.slots}, c.causal};
}

// Output and the gradient of q, k and v under a fixed weighting of the output.
std::vector<Tensor> results(const AttentionInput& in, Tensor (*core)(const AttentionInput&)) {
  in.qkv.mutable_grad() = Tensor();
  const Tensor out = core(in);
  const Tensor weights =
      torch::cos(torch::arange(out.numel(), out.options().requires_grad(false))).view(out.sizes());
  (out * weights).sum().backward();
  return {out.detach(), in.qkv.grad()};
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, EqualsItsDefinitionInDoublePrecision) {
  torch::manual_seed(1);
  const AttentionInput in = random_input(GetParam(), torch::kDouble);
  const auto ours = results(in, attention), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], reference[i], 1e-10, 1e-11))
        << i << ": " << (ours[i] - reference[i]).abs().max();
  }
}

TEST_P(AttentionTest, UnfusedIsTheSame) {
  torch::manual_seed(3);
  const AttentionInput in = random_input(GetParam(), torch::kDouble);
  const auto ours = results(in, attention_unfused), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], reference[i], 1e-10, 1e-11))
        << i << ": " << (ours[i] - reference[i]).abs().max();
  }
}

TEST_P(AttentionTest, UnfusedIsTheSameWithPaddingInItsRows) {
  torch::manual_seed(4);
  AttentionInput in = random_input(GetParam(), torch::kDouble);
  in.valid = torch::rand({in.rows.positions}) < 0.6;
  in.valid.index_fill_(0, in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong), true);
  const auto ours = results(in, attention_unfused), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], reference[i], 1e-10, 1e-11))
        << i << ": " << (ours[i] - reference[i]).abs().max();
  }
}

TEST_P(AttentionTest, InSinglePrecisionIsWithinItsRounding) {
  torch::manual_seed(2);
  const AttentionInput in = random_input(GetParam(), torch::kDouble);
  AttentionInput single = in;
  single.qkv = in.qkv.detach().to(torch::kFloat).requires_grad_(true);
  const auto ours = results(single, attention), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kDouble), reference[i], 1e-4, 2e-5))
        << i << ": " << (ours[i] - reference[i]).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AttentionTest,
                         testing::Values(Case{{7, 7}, 3, 5, true, 0}, Case{{65, 3, 40}, 2, 16, false, 0},
                                         Case{{1}, 1, 1, true, 0}, Case{{131, 2}, 1, 8, true, 0.2},
                                         Case{{33, 33}, 4, 9, true, 0.5},
                                         Case{{300, 1, 17}, 2, 4, false, 0.1},
                                         Case{{300, 1, 17}, 2, 4, true, 0.1, true},
                                         Case{{130, 140}, 1, 8, false, 0, true}));

TEST(AttentionEdgeTest, StaysFiniteForLargeScores) {
  AttentionInput in = random_input({{20}, 1, 4, true, 0}, torch::kFloat);
  in.qkv = in.qkv.detach() * 1e3;
  EXPECT_TRUE(torch::isfinite(attention(in)).all().item<bool>());
}

// Rows of a batch differ in length; the working memory of each must be its own (2000 and 1057 are cut into
// blocks of 65 and 124).
TEST(AttentionEdgeTest, LongRowsOfDifferentLengthsEqualTheDefinition) {
  torch::manual_seed(3);
  const AttentionInput in = random_input({{1057, 2000, 1024}, 1, 2, true, 0.1}, torch::kFloat);
  const auto ours = results(in, attention), reference = results(in, attention_reference);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], reference[i], 1e-3, 1e-4)) << i;
}

TEST(AttentionEdgeTest, InTheCausalFormTheFirstQuerySeesItselfAlone) {
  const AttentionInput in = random_input({{9}, 1, 4, true, 0, true}, torch::kDouble);
  EXPECT_TRUE(torch::allclose(attention(in)[0], in.qkv[0][2], 0, 1e-12));
}

TEST(AttentionEdgeTest, WorksInTrainingAfterInference) {
  AttentionInput in = random_input({{5}, 1, 4, true, 0}, torch::kFloat);
  {
    const c10::InferenceMode inference;
    attention({torch::randn({5, 3, 1, 4}), in.rows, {}});
  }
  EXPECT_NO_THROW(attention(in).sum().backward());
}

TEST(AttentionEdgeTest, NotANumberIsPassedOn) {
  AttentionInput in = random_input({{20}, 1, 4, true, 0}, torch::kFloat);
  in.qkv = in.qkv.detach().clone();
  in.qkv[3][1][0][0] = std::nanf("");  // a key
  EXPECT_TRUE(torch::isnan(attention(in)).all().item<bool>());
}

}  // namespace
}  // namespace lra
