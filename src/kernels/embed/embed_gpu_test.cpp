#include <gtest/gtest.h>

#include "kernels/embed/embed_example.h"
#include "support/test_device.h"

namespace lra {
namespace {

std::vector<Tensor> results(const EmbedInput& in, torch::Dtype parameters, torch::Dtype type) {
  const TestDevice device;
  return device.run([&] { return embed_results(embed_copy(in, parameters, type, device), embed); });
}

class EmbedGpuTest : public testing::TestWithParam<EmbedExample> {};

TEST_P(EmbedGpuTest, EqualsTheCpuInDoublePrecision) {
  torch::manual_seed(0);
  const EmbedInput in = GetParam().input();
  const auto expected = embed_results(in, embed);
  const auto ours = results(in, torch::kDouble, torch::kDouble);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].cpu(), expected[i], 1e-10, 1e-11)) << i;
  }
}

TEST_P(EmbedGpuTest, EqualsTheCpuInSinglePrecision) {
  torch::manual_seed(1);
  const EmbedInput in = embed_copy(GetParam().input(), torch::kFloat, torch::kFloat);
  const auto expected = embed_results(in, embed);
  const auto ours = results(in, torch::kFloat, torch::kFloat);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i].cpu(), expected[i], 1e-4, 1e-4)) << i;
}

TEST_P(EmbedGpuTest, InHalfPrecisionIsWithinItsRounding) {
  torch::manual_seed(2);
  const EmbedInput in = GetParam().input();
  const auto expected = embed_results(in, embed_reference);
  const auto ours = results(in, torch::kFloat, torch::kBFloat16);
  for (size_t i = 0; i < ours.size(); ++i) {
    // A sum of n numbers rounded to 8 bits is off by their number's root.
    const double many = i ? std::sqrt(static_cast<double>(in.tokens.numel())) : 1;
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kCPU, torch::kDouble), expected[i], 8e-3, 8e-3 * many))
        << i;
  }
}

TEST_P(EmbedGpuTest, GivesTheSameBitsTwice) {
  const EmbedInput in = GetParam().input();
  const auto first = results(in, torch::kFloat, torch::kBFloat16),
             second = results(in, torch::kFloat, torch::kBFloat16);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i])) << i;
}

// So many rows that a warp's next item begins with other rows and other places: on a GPU the first, on the
// emulated device, which has fewer multiprocessors, the second.
std::vector<int32_t> many_rows(int32_t longest, size_t others, int32_t shortest) {
  std::vector<int32_t> lengths{longest};
  for (size_t i = 0; i < others; ++i) lengths.push_back(shortest + static_cast<int32_t>(i % 7));
  return lengths;
}

INSTANTIATE_TEST_SUITE_P(
    OddSizes, EmbedGpuTest,
    testing::Values(EmbedExample{{1}, true, 2, 1, false, false, 0},
                    EmbedExample{{5, 3, 9}, true, 11, 24, true, true, 0},
                    EmbedExample{{5, 3, 9}, true, 11, 13, true, true, 0.25},
                    EmbedExample{{5, 3, 9}, false, 2, 128, true, true, 0.25},
                    EmbedExample{{2000, 3100}, true, 257, 136, true, true, 0},
                    EmbedExample{{2000, 3100}, true, 257, 136, true, true, 0.1},
                    EmbedExample{{700, 1}, false, 1000, 65, true, false, 0.5},
                    EmbedExample{{700, 1}, false, 1000, 64, true, false, 0},
                    EmbedExample{{700, 1}, true, 70000, 8, true, false, 0},
                    // a tail in no row
                    EmbedExample{{2000, 3100}, true, 5, 136, true, true, 0, 77},
                    EmbedExample{{2000, 3100}, true, 5, 64, false, true, 0.1, 777},
                    EmbedExample{{3000, 1, 90, 2999}, false, 6, 64, true, true, 0},
                    EmbedExample{
                        {31, 70, 1, 64, 500, 33, 32, 90, 2, 700, 5}, true, 2, 72, true, true, 0.1, 300},
                    EmbedExample{{9000}, true, 3, 96, true, false, 0.1},
                    // several slices of columns, the last not full
                    EmbedExample{{40, 41, 39, 7, 1, 90, 33, 2, 64}, true, 9, 600, true, true, 0.1, 20},
                    // more positions than one turn of the sort takes
                    EmbedExample{many_rows(2201, 32, 1), true, 9, 64, true, true, 0.1},
                    EmbedExample{many_rows(901, 16, 500), true, 9, 64, true, true, 0.1},
                    // No place in the table behind the longest row's.
                    EmbedExample{{9, 8, 9}, true, 9, 64, true, true, 0, 0, false, 0},
                    EmbedExample{{150001, 149000}, true, 100, 8, false, false, 0}));

// Tokens in an order that the sum over a token's positions could stumble on.
class EmbedGpuTokensTest : public testing::TestWithParam<int> {};

TEST_P(EmbedGpuTokensTest, AreSummedInAnyOrder) {
  constexpr int64_t kPositions = 40000;
  EmbedInput in = EmbedExample{{kPositions}, true, 257, 24, true, false, 0}.input();
  const Tensor i = torch::arange(kPositions);
  in.tokens = std::vector<Tensor>{torch::full({kPositions}, 3),       // one token, over many pieces
                                  i * 257 / kPositions,               // in order
                                  256 - i * 257 / kPositions,         // against it
                                  torch::where(i < 100, i, 257),      // nearly all CLS
                                  i.div(32, "floor").remainder(257),  // runs as long as a piece
                                  i.div(1000, "floor").remainder(2)}[static_cast<size_t>(GetParam())]
                  .to(torch::kInt);
  const auto expected = embed_results(in, embed);
  const auto ours = results(in, torch::kDouble, torch::kDouble);
  for (size_t k = 0; k < ours.size(); ++k) {
    EXPECT_TRUE(torch::allclose(ours[k].cpu(), expected[k], 1e-10, 1e-10)) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, EmbedGpuTokensTest, testing::Range(0, 6));

class EmbedGpuBoundaryTest : public testing::TestWithParam<EmbedExample> {};

TEST_P(EmbedGpuBoundaryTest, TakesParametersOnAny) {
  const EmbedInput in = GetParam().input();
  const auto expected = embed_results(in, embed_reference);
  const TestDevice device;
  EmbedInput shifted = embed_copy(in, torch::kFloat, torch::kFloat, device);
  const Tensor flat = torch::empty({in.table.numel() + 1}, shifted.table.options().requires_grad(false));
  shifted.table = flat.narrow(0, 1, in.table.numel()).view_as(in.table).copy_(in.table.detach());
  shifted.table.requires_grad_(true);
  const auto ours = device.run([&] { return embed_results(shifted, embed); });
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i].to(torch::kCPU, torch::kDouble), expected[i], 1e-4, 1e-4)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, EmbedGpuBoundaryTest,
                         testing::Values(EmbedExample{{5, 30}, true, 11, 64, true, true, 0},
                                         EmbedExample{{2000, 3100}, true, 5, 64, true, true, 0}));

}  // namespace
}  // namespace lra
