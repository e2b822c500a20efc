#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernels/embed/embed_example.h"
#include "kernels/portable.h"

namespace lra {
namespace {

class EmbedTest : public testing::TestWithParam<EmbedExample> {};

TEST_P(EmbedTest, EqualsItsDefinitionInDoublePrecision) {
  torch::manual_seed(0);
  const EmbedInput in = GetParam().input();
  const auto ours = embed_results(in, embed), expected = embed_results(in, embed_reference);
  ASSERT_EQ(ours.size(), expected.size());
  EXPECT_TRUE(torch::allclose(ours[0], expected[0], 0, 1e-14));
  for (size_t i = 1; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-10, 1e-12)) << i;
}

TEST_P(EmbedTest, InSinglePrecisionIsWithinItsRounding) {
  torch::manual_seed(1);
  const EmbedInput in = GetParam().input();
  const auto ours = embed_results(embed_copy(in, torch::kFloat, torch::kFloat), embed);
  const auto expected = embed_results(in, embed_reference);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kDouble), expected[i], 1e-4, 1e-4)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, EmbedTest,
                         testing::Values(EmbedExample{{1}, true, 2, 1, false, false, 0},
                                         EmbedExample{{5, 3, 9}, true, 11, 24, true, true, 0},
                                         EmbedExample{{5, 3, 9}, true, 11, 13, true, true, 0.25},
                                         EmbedExample{{5, 3, 9}, false, 11, 13, true, true, 0.25},
                                         EmbedExample{{2000, 3100}, true, 257, 33, false, true, 0.1},
                                         EmbedExample{{700, 1}, false, 1000, 64, true, false, 0.5},
                                         EmbedExample{{5, 3, 900}, true, 11, 13, true, true, 0.25, 0, true}));

TEST(EmbedGapsTest, TheFormForOtherDevicesHasTheSameGaps) {
  torch::manual_seed(2);
  const EmbedInput in = EmbedExample{{5, 3, 90}, true, 11, 13, true, true, 0.25, 0, true}.input();
  const auto expected = embed_results(in, embed_reference);
  const PortablePath portable;
  const auto ours = embed_results(in, embed);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-10, 1e-12)) << i;
}

TEST(EmbedGradientTest, IsAddedToGradientsThatAreThere) {
  const EmbedInput in = EmbedExample{{5, 3}, true, 11, 8, true, true, 0}.input();
  const auto expected = embed_results(in, embed_reference);
  for (const Tensor& t : {in.table, in.cls, in.positions}) t.mutable_grad() = torch::ones_like(t).detach();
  embed(in).backward(torch::sin(torch::arange(64, torch::kDouble)).view({8, 8}));
  EXPECT_TRUE(torch::allclose(in.table.grad(), 1 + expected[1], 0, 1e-12));
  EXPECT_TRUE(torch::allclose(in.cls.grad(), 1 + expected[2], 0, 1e-12));
  EXPECT_TRUE(torch::allclose(in.positions.grad(), 1 + expected[3], 0, 1e-12));
}

TEST(EmbedGradientTest, LeavesFixedPositionsAlone) {
  EmbedInput in = EmbedExample{{5, 3}, true, 11, 8, false, true, 0}.input();
  in.positions = in.positions.detach();
  const auto ours = embed_results(in, embed), expected = embed_results(in, embed_reference);
  EXPECT_TRUE(torch::allclose(ours[1], expected[1], 0, 1e-12));
  EXPECT_FALSE(in.positions.grad().defined());
}

TEST(EmbedGradientTest, IsTheSameForAnyNumberOfThreads) {
  const EmbedInput in = embed_copy(EmbedExample{{4000, 4500}, true, 30, 16, true, true, 0.1}.input(),
                                   torch::kFloat, torch::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = embed_results(in, embed);
  at::set_num_threads(3);
  const auto three = embed_results(in, embed);
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

TEST(EmbedForwardTest, WorksInInferenceMode) {
  const EmbedInput in = EmbedExample{{5, 3}, true, 11, 8, true, true, 0.5}.input();
  const Tensor expected = embed_reference(in).detach();
  const c10::InferenceMode inference;
  EXPECT_TRUE(torch::allclose(embed(in), expected, 0, 1e-14));
}

TEST(EmbedForwardTest, RefusesATokenBeyondTheVocabulary) {
  EmbedInput in = EmbedExample{{5, 3}, true, 11, 8, false, false, 0}.input();
  in.tokens[2] = 11;  // CLS, and there is none
  EXPECT_THROW(embed(in), c10::Error);
}

}  // namespace
}  // namespace lra
