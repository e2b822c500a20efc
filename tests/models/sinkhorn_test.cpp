#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/pattern.h"

namespace lra {
namespace {

const Model& sinkhorn() { return find_model("sinkhorn"); }

std::unique_ptr<ModelOptions> options(const std::string& yaml) { return options_of(sinkhorn(), yaml); }

// The arena's has a head of one layer and always 25 blocks.
TEST(SinkhornTest, ParameterCountsDifferFromTheArenasByHeadAndBlocksAlone) {
  const ArenaCount listops{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "mean", "sinusoidal", 8'424'202};
  const int64_t their_head = 512 * 10 + 10, our_head = 512 * 1024 + 1024 + 1024 * 10 + 10;
  const int64_t P = 64, blocks = 40;
  EXPECT_EQ(parameter_count(sinkhorn(), listops, *options("{block: 50}")),
            listops.parameters - their_head + our_head + 4 * (blocks - 25) * P);
}

// The sorting matrix of a row of 6 blocks, read off the block's output: with queries of zero all weights are
// equal, so a query gets the mean of its own and its sorted values, and the values tell the blocks apart.
Tensor sorting_matrix(const std::string& yaml, bool training) {
  EncoderConfig c = small_config();
  c.heads = 1;
  c.pooling = "mean";
  c.dropout = c.attention_dropout = 0;
  const auto block = sinkhorn().block(c, *options(yaml), 0);
  initialize(*block, 3);
  block->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  auto p = block->named_parameters();
  const int64_t b = 4, G = 6, D = c.width;
  for (const char* name : {"attention.q.weight", "feed_forward.out.weight", "feed_forward.out.bias"})
    p[name].zero_();
  for (const char* name : {"attention.v.weight", "attention.o.weight"})
    p[name].copy_(torch::eye(D, torch::kDouble));
  const Tensor of_block = torch::eye(D, torch::kDouble).narrow(0, 0, G), x = of_block.repeat_interleave(b, 0);
  Forward f;
  f.training = training;
  f.step = torch::full({1}, 3, torch::kLong);
  f.rows = lay_out({static_cast<int32_t>(b * G)}, true);
  const Tensor y = (block->forward({x}, f).sum() - x).view({G, b, D}).select(1, 0);
  const Tensor values = torch::layer_norm(of_block, {D}, {}, {}, 1e-6);
  return (2 * y - values).matmul(torch::linalg_pinv(values));  // sorted values = P · values
}

TEST(SinkhornTest, TheSortingMatrixIsDoublyStochastic) {
  for (const bool training : {false, true}) {
    const Tensor P = sorting_matrix("{block: 4, iters: 200}", training);
    EXPECT_GT(P.min().item<double>(), -1e-9);
    EXPECT_LT((P.sum(0) - 1).abs().max().item<double>(), 1e-6) << training;
    EXPECT_LT((P.sum(1) - 1).abs().max().item<double>(), 1e-9) << training;
  }
}

TEST(SinkhornTest, NoiseIsForTrainingOnlyAndALowTemperatureSortsHarder) {
  EXPECT_TRUE(torch::equal(sorting_matrix("{block: 4}", false), sorting_matrix("{block: 4}", false)));
  EXPECT_FALSE(torch::allclose(sorting_matrix("{block: 4}", false), sorting_matrix("{block: 4}", true)));
  const auto largest = [](const std::string& yaml) {
    return sorting_matrix(yaml, true).amax(1).mean().item<double>();
  };
  EXPECT_GT(largest("{block: 4, iters: 50, temperature: 0.1}"),
            largest("{block: 4, iters: 50, temperature: 10}"));
}

}  // namespace
}  // namespace lra
