#include "kernels/cross_attention/cross_attention.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

struct Case {
  std::vector<int32_t> queries, keys;  // the same: one set of rows
  int64_t H, W, P;
  bool table, causal;
  double dropout;
};

CrossAttentionInput random_input(const Case& c, bool packed, torch::Dtype type = torch::kDouble) {
  torch::manual_seed(1);
  CrossAttentionInput in;
  in.queries = lay_out(c.queries, packed, 1), in.keys = lay_out(c.keys, packed, 1);
  const auto random = [&](torch::IntArrayRef shape) {
    return torch::randn(shape, torch::kDouble).to(type).requires_grad_(true);
  };
  in.q = random({in.queries.positions, c.H, c.W});
  in.k = random({in.keys.positions, c.H, c.W});
  in.v = random({in.keys.positions, c.H, c.P});
  if (c.table) in.table = random({c.H, in.keys.longest + 3, in.keys.longest + 3});
  in.scale = 0.7;
  in.causal = c.causal;
  in.dropout = {c.dropout, 3, 9, torch::full({1}, 4, torch::kLong), in.queries.slots};
  return in;
}

// The definition, row by row.
Tensor by_rows(const CrossAttentionInput& in) {
  const auto row_of = [](const Tensor& x, const Rows& rows, int64_t b) {
    return x.narrow(0, rows.offsets[b].item<int64_t>(), rows.lengths[b].item<int64_t>()).transpose(0, 1);
  };
  Tensor out = torch::zeros({in.q.size(0), in.v.size(1), in.v.size(2)}, in.v.options());
  for (int64_t b = 0; b < in.queries.count; ++b) {
    CrossAttentionRow row{row_of(in.q, in.queries, b), row_of(in.k, in.keys, b), row_of(in.v, in.keys, b)};
    const int64_t at = in.queries.offsets[b].item<int64_t>(), n = row.q.size(1);
    row.scale = in.scale, row.causal = in.causal, row.dropout = in.dropout;
    if (in.table.defined()) row.table = in.table.narrow(1, 0, n).narrow(2, 0, row.k.size(1));
    row.number = in.queries.slots[at].item<int64_t>() >> 24;
    out = out.slice_scatter(cross_attention_reference(row).transpose(0, 1), 0, at, at + n);
  }
  return out;
}

std::vector<Tensor> results(const CrossAttentionInput& in, Tensor (*core)(const CrossAttentionInput&)) {
  std::vector<Tensor> inputs = {in.q, in.k, in.v};
  if (in.table.defined()) inputs.push_back(in.table);
  for (const Tensor& x : inputs) x.mutable_grad() = Tensor();
  const Tensor out = core(in);
  const Tensor weights = torch::cos(torch::arange(out.numel(), torch::kDouble)).view(out.sizes());
  (out * weights.to(out.scalar_type())).sum().backward();
  std::vector<Tensor> all = {out.detach().to(torch::kDouble)};
  for (const Tensor& x : inputs) {
    all.push_back(x.grad().defined() ? x.grad().to(torch::kDouble) : torch::zeros_like(x, torch::kDouble));
  }
  return all;
}

void expect_near(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].numel() == 0) continue;
    EXPECT_LT((a[i] - b[i]).abs().max().item<double>(), tolerance) << i;
  }
}

class CrossAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(CrossAttentionTest, EqualsItsDefinitionInDoublePrecision) {
  for (const bool packed : {true, false}) {
    const CrossAttentionInput in = random_input(GetParam(), packed);
    expect_near(results(in, cross_attention), results(in, by_rows), 1e-11);
  }
}

TEST_P(CrossAttentionTest, InSinglePrecisionIsWithinItsRounding) {
  const CrossAttentionInput in = random_input(GetParam(), true);
  const CrossAttentionInput single = random_input(GetParam(), true, torch::kFloat);
  expect_near(results(single, cross_attention), results(in, by_rows), 1e-4);
}

TEST_P(CrossAttentionTest, OnAGridEqualsItsDefinition) {
  for (const bool packed : {true, false}) {
    CrossAttentionInput in = random_input(GetParam(), packed);
    in.dropout = {};  // the library draws its own
    expect_near(results(in, cross_attention_grid), results(in, by_rows), 1e-11);
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, CrossAttentionTest,
                         testing::Values(Case{{7, 1, 20}, {5, 5, 5}, 3, 5, 4, false, false, 0.2},
                                         Case{{1, 1, 1}, {9, 2, 40}, 2, 12, 8, false, false, 0.1},
                                         Case{{65, 3, 40}, {65, 3, 40}, 2, 9, 4, true, false, 0.2},
                                         Case{{130, 7}, {130, 7}, 2, 6, 8, false, true, 0.1},
                                         Case{{33, 50}, {33, 50}, 2, 6, 8, true, true, 0.3},
                                         Case{{20, 9}, {20, 9}, 2, 0, 4, true, false, 0}));

TEST(CrossAttentionEdgeTest, LongRowsAreCutIntoBlocksOfQueries) {
  const CrossAttentionInput in = random_input({{2000, 700}, {2000, 700}, 1, 3, 2, false, true, 0.1}, true);
  expect_near(results(in, cross_attention), results(in, by_rows), 1e-10);
}

TEST(CrossAttentionEdgeTest, StridedInputIsTakenAsItLies) {
  CrossAttentionInput in = random_input({{9, 4}, {9, 4}, 2, 4, 4, false, false, 0}, true);
  const Tensor together = torch::stack({in.q.detach(), in.k.detach(), in.v.detach()}, 1);
  const Tensor expected = cross_attention(in);
  in.q = together.select(1, 0), in.k = together.select(1, 1), in.v = together.select(1, 2);
  EXPECT_TRUE(torch::equal(cross_attention(in), expected));
}

// A causal weight on the future is exactly nothing, also where a value is not a number.
TEST(CrossAttentionEdgeTest, NothingLaterIsTouched) {
  CrossAttentionInput in = random_input({{40}, {40}, 1, 4, 4, false, true, 0}, true, torch::kFloat);
  in.q = in.q.detach(), in.k = in.k.detach(), in.v = in.v.detach().clone();
  const Tensor before = cross_attention(in);
  in.v.narrow(0, 30, 10).fill_(1e30);
  EXPECT_TRUE(torch::equal(cross_attention(in).narrow(0, 0, 30), before.narrow(0, 0, 30)));
}

}  // namespace
}  // namespace lra
