#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/error_text.h"
#include "support/pattern.h"

namespace lra {
namespace {

const Model& reformer() { return find_model("reformer"); }

std::unique_ptr<ModelOptions> options(const std::string& yaml) { return options_of(reformer(), yaml); }

TEST(ReformerTest, WithoutOutputProjectionParameterCountsAreThoseOfTheArena) {
  for (const ArenaCount& a :
       {ArenaCount{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 6'851'594},
        ArenaCount{"Text", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", 2'962'434},
        // queries there are as wide as the embedding, whatever its configuration says
        ArenaCount{"CIFAR-10", 4, 8, 64, 64, 64, 256, 10, 1024, "cls", "learned", 154'058},
        ArenaCount{"Pathfinder", 2, 8, 64, 64, 64, 256, 2, 1024, "mean", "sinusoidal", 54'338}}) {
    EXPECT_EQ(parameter_count(reformer(), a, *options("{out_proj: false}")), a.parameters) << a.name;
  }
}

TEST(ReformerTest, WithoutOutputProjectionTheWidthsMustAgree) {
  EncoderConfig c = small_config();
  c.qkv_width = 8;
  EXPECT_TRUE(
      says(error_text([&] { reformer().block(c, *options("{out_proj: false}"), 0); }), "qkv_width 8"));
}

// Dense attention with shared queries and keys, in which a position sees itself only if it is alone.
TEST(ReformerTest, WithOneChunkEqualsDenseSharedQueryKeyAttention) {
  EncoderConfig c = small_config();
  c.heads = 1;
  for (const int64_t n : {1, 2, 40}) {
    const auto block = reformer().block(c, *options("{chunk: 64}"), 0);
    initialize(*block, 3);
    block->to(torch::kDouble);
    Forward f;
    f.rows = lay_out({static_cast<int32_t>(n)}, true);
    torch::manual_seed(1);
    const Tensor x = torch::randn({n, c.width}, torch::kDouble);
    const auto p = block->named_parameters();
    const Tensor normed =
        torch::layer_norm(x, {c.width}, p["attention_norm.weight"], p["attention_norm.bias"], 1e-6);
    const Tensor q = normed.matmul(p["attention.qk.weight"].t()),
                 v = normed.matmul(p["attention.v.weight"].t());
    const Tensor k = q / q.norm(2, -1, true);
    Tensor scores = q.matmul(k.t()) / 4;  // √16
    if (n > 1) scores = scores.masked_fill(torch::eye(n).to(torch::kBool), -INFINITY);
    const Tensor middle = x + torch::softmax(scores, 1).matmul(v).matmul(p["attention.o.weight"].t());
    const Tensor normed2 = torch::layer_norm(middle, {c.width}, p["feed_forward_norm.weight"],
                                             p["feed_forward_norm.bias"], 1e-6);
    const Tensor inner =
        torch::gelu(normed2.matmul(p["feed_forward.in.weight"].t()) + p["feed_forward.in.bias"], "tanh");
    const Tensor expected =
        middle + inner.matmul(p["feed_forward.out.weight"].t()) + p["feed_forward.out.bias"];
    const Tensor y = block->forward({x}, f).sum();
    EXPECT_LT((y - expected).abs().max().item<double>(), 1e-5) << n;  // keys have 1e-6 added to their square
  }
}

Tensor output(const std::string& yaml, bool training, int64_t step) {
  EncoderConfig c = small_config();
  c.dropout = 0;
  const auto block = reformer().block(c, *options(yaml), 0);
  initialize(*block, 3);
  Forward f;
  f.training = training;
  f.step = torch::full({1}, step, torch::kLong);
  f.rows = lay_out({60}, true);
  torch::manual_seed(1);
  return block->forward({torch::randn({60, c.width})}, f).sum().detach();
}

TEST(ReformerTest, RotationsAreFreshInTrainingOnly) {
  EXPECT_FALSE(torch::equal(output("{chunk: 6}", true, 1), output("{chunk: 6}", true, 2)));
  EXPECT_TRUE(torch::equal(output("{chunk: 6}", false, 1), output("{chunk: 6}", false, 2)));
  const std::string constant = "{chunk: 6, rotation: const}";
  EXPECT_TRUE(torch::equal(output(constant, true, 1), output(constant, true, 2)));
}

}  // namespace
}  // namespace lra
