#include <gtest/gtest.h>

#include "base/torch_compat.h"
#include "kernels/embed/embed_example.h"

namespace lra {
namespace {

class EmbedGpuTest : public testing::TestWithParam<EmbedExample> {};

TEST_P(EmbedGpuTest, EqualsTheCpuInDoublePrecision) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  torch::manual_seed(0);
  const EmbedInput in = GetParam().input();
  const auto expected = embed_results(in, embed);
  const auto ours = embed_results(embed_copy(in, torch::kDouble, torch::kDouble, torch::kCUDA), embed);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].cpu(), expected[i], 1e-10, 1e-11)) << i;
  }
}

TEST_P(EmbedGpuTest, EqualsTheCpuInSinglePrecision) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  torch::manual_seed(1);
  const EmbedInput in = embed_copy(GetParam().input(), torch::kFloat, torch::kFloat);
  const auto expected = embed_results(in, embed);
  const auto ours = embed_results(embed_copy(in, torch::kFloat, torch::kFloat, torch::kCUDA), embed);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i].cpu(), expected[i], 1e-4, 1e-4)) << i;
}

TEST_P(EmbedGpuTest, InHalfPrecisionIsWithinItsRounding) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  torch::manual_seed(2);
  const EmbedInput in = GetParam().input();
  const auto expected = embed_results(in, embed_reference);
  const auto ours = embed_results(embed_copy(in, torch::kFloat, torch::kBFloat16, torch::kCUDA), embed);
  for (size_t i = 0; i < ours.size(); ++i) {
    // A sum of n numbers rounded to 8 bits is off by their number's root.
    const double many = i ? std::sqrt(static_cast<double>(in.tokens.numel())) : 1;
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kCPU, torch::kDouble), expected[i], 8e-3, 8e-3 * many))
        << i;
  }
}

TEST_P(EmbedGpuTest, GivesTheSameBitsTwice) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  const EmbedInput in = embed_copy(GetParam().input(), torch::kFloat, torch::kBFloat16, torch::kCUDA);
  const auto first = embed_results(in, embed), second = embed_results(in, embed);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(OddSizes, EmbedGpuTest,
                         testing::Values(EmbedExample{{1}, true, 2, 1, false, false, 0},
                                         EmbedExample{{5, 3, 9}, true, 11, 24, true, true, 0},
                                         EmbedExample{{5, 3, 9}, true, 11, 13, true, true, 0.25},
                                         EmbedExample{{5, 3, 9}, false, 2, 128, true, true, 0.25},
                                         EmbedExample{{2000, 3100}, true, 257, 136, true, true, 0},
                                         EmbedExample{{2000, 3100}, true, 257, 136, true, true, 0.1},
                                         EmbedExample{{700, 1}, false, 1000, 65, true, false, 0.5},
                                         EmbedExample{{700, 1}, false, 1000, 64, true, false, 0}));

TEST(EmbedGpuEdgeTest, TakesParametersOnAnyBoundary) {
  if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  const EmbedInput in = EmbedExample{{5, 30}, true, 11, 64, true, true, 0}.input();
  const auto expected = embed_results(in, embed_reference);
  EmbedInput shifted = embed_copy(in, torch::kFloat, torch::kFloat, torch::kCUDA);
  const Tensor flat = torch::empty({in.table.numel() + 1}, shifted.table.options().requires_grad(false));
  shifted.table = flat.narrow(0, 1, in.table.numel()).view_as(in.table).copy_(in.table.detach());
  shifted.table.requires_grad_(true);
  const auto ours = embed_results(shifted, embed);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kCPU, torch::kDouble), expected[i], 1e-5, 1e-5)) << i;
  }
}

}  // namespace
}  // namespace lra
