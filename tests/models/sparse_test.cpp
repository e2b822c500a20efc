#include <gtest/gtest.h>

#include "models/model.h"
#include "support/arena_counts.h"
#include "support/models.h"

namespace lra {
namespace {

const Model& sparse() { return find_model("sparse"); }

TEST(SparseTest, ParameterCountsAreThoseOfTheArena) {
  for (const ArenaCount& a :
       {ArenaCount{"ListOps", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", 8'948'746},
        ArenaCount{"CIFAR-10", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", 248'458},
        ArenaCount{"Pathfinder", 1, 8, 32, 16, 32, 256, 2, 1024, "mean", "sinusoidal", 13'666}}) {
    EXPECT_EQ(parameter_count(sparse(), a, *sparse().options()), a.parameters) << a.name;
  }
}

struct Pattern {
  EncoderConfig config = small_config();
  std::string options = "{}";
  int64_t n = 0;

  // seen(i, j): output i moves with input j.
  Tensor seen() const {
    auto o = sparse().options();
    const ConfigTree tree = parse_yaml(options, "test");
    ConfigReader reader(tree);
    o->visit(reader);
    const auto block = sparse().block(config, *o, 0);
    initialize(*block, 3);
    block->to(torch::kDouble);
    Forward f;
    f.rows = lay_out({static_cast<int32_t>(n)}, true);
    torch::manual_seed(1);
    const Tensor x = torch::randn({n, config.width}, torch::kDouble), y = block->forward({x}, f).sum();
    Tensor all = torch::zeros({n, n}, torch::kBool);
    for (int64_t j = 0; j < n; ++j) {
      Tensor changed = x.clone();
      changed[j] += 1;
      all.select(1, j).copy_((block->forward({changed}, f).sum() - y).abs().amax(1) > 0);
    }
    return all;
  }
};

bool in_the_arena(int64_t q, int64_t k) {
  return k <= q && (k / 50 == q / 50 || k % 50 == 0 || k % 50 >= 40);
}

TEST(SparseTest, ThePatternIsThatOfTheArena) {
  Pattern p;
  p.config.pooling = "mean";
  p.n = 170;
  const Tensor seen = p.seen();
  for (int64_t q = 0; q < p.n; ++q) {
    for (int64_t k = 0; k < p.n; ++k) ASSERT_EQ(seen[q][k].item<bool>(), in_the_arena(q, k)) << q << " " << k;
  }
}

TEST(SparseTest, ClsIsOpenAndThePatternIsThatOfTheOthers) {
  Pattern p;
  p.n = 120;
  const Tensor seen = p.seen();
  for (int64_t q = 0; q < p.n; ++q) {
    for (int64_t k = 0; k < p.n; ++k) {
      ASSERT_EQ(seen[q][k].item<bool>(), q == 0 || k == 0 || in_the_arena(q - 1, k - 1)) << q << " " << k;
    }
  }
}

TEST(SparseTest, WithoutCausalityAllSummariesAreSeen) {
  Pattern p;
  p.config.pooling = "mean";
  p.options = "{causal: false, block: 10, summary: 2}";
  p.n = 47;
  const Tensor seen = p.seen();
  for (int64_t q = 0; q < p.n; ++q) {
    for (int64_t k = 0; k < p.n; ++k) {
      const bool expected = k / 10 == q / 10 || k % 10 == 0 || k % 10 >= 8;
      ASSERT_EQ(seen[q][k].item<bool>(), expected) << q << " " << k;
    }
  }
}

}  // namespace
}  // namespace lra
