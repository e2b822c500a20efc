#include "kernels/linear_attention/linear_attention.h"

#include <gtest/gtest.h>

#include "kernels/portable.h"

namespace lra {
namespace {

using torch::Tensor;

struct Case {
  std::vector<int32_t> lengths;
  int64_t H, P, M;
  FeatureMap map;
  bool packed, causal;
};

LinearAttentionInput random_input(const Case& c) {
  torch::manual_seed(1);
  LinearAttentionInput in;
  in.rows = lay_out(c.lengths, c.packed);
  in.qkv = torch::randn({in.rows.positions, 3, c.H, c.P}, torch::kDouble).requires_grad_(true);
  in.map = c.map;
  if (c.map == FeatureMap::kSoftmax) in.projection = torch::randn({c.M, c.P}, torch::kDouble);
  in.causal = c.causal;
  return in;
}

// The definition, row by row.
Tensor by_rows(const LinearAttentionInput& in) {
  Tensor out = torch::zeros_like(in.qkv.select(1, 0));
  for (int64_t b = 0; b < in.rows.count; ++b) {
    const int64_t at = in.rows.offsets[b].item<int64_t>(), n = in.rows.lengths[b].item<int64_t>();
    const auto x = in.qkv.narrow(0, at, n).permute({1, 2, 0, 3}).unbind(0);  // 3 × [H, n, P]
    const Tensor row = linear_attention_reference({x[0], x[1], x[2], in.map, in.projection, in.causal});
    out = out.slice_scatter(row.transpose(0, 1), 0, at, at + n);
  }
  return out;
}

// Output and gradient under a fixed weighting of the output; zero outside the rows.
std::vector<Tensor> results(const LinearAttentionInput& in, Tensor (*core)(const LinearAttentionInput&)) {
  in.qkv.mutable_grad() = Tensor();
  const Tensor out = core(in);
  const Tensor weights = torch::cos(torch::arange(out.numel(), torch::kDouble)).view(out.sizes());
  (out * weights.to(out.scalar_type())).sum().backward();
  return {out.detach().to(torch::kDouble), in.qkv.grad().to(torch::kDouble)};
}

double distance(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>() / b[i].abs().max().item<double>());
  }
  return most;
}

class LinearAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(LinearAttentionTest, EqualsTheWholeMatrixInDoublePrecision) {
  const LinearAttentionInput in = random_input(GetParam());
  const auto reference = results(in, by_rows);
  EXPECT_LT(distance(results(in, linear_attention), reference), 1e-11);
}

TEST_P(LinearAttentionTest, OnAGridEqualsTheWholeMatrixToo) {
  const LinearAttentionInput in = random_input(GetParam());
  EXPECT_LT(distance(results(in, linear_attention_grid), results(in, by_rows)), 1e-11);
}

TEST_P(LinearAttentionTest, InSinglePrecisionIsWithinItsRounding) {
  const LinearAttentionInput in = random_input(GetParam());
  LinearAttentionInput single = in;
  single.qkv = in.qkv.detach().to(torch::kFloat).requires_grad_(true);
  EXPECT_LT(distance(results(single, linear_attention), results(in, by_rows)), 3e-5);
}

// What CUDA runs with bf16 activations: only input and output are rounded (2^-9), sums are not.
TEST_P(LinearAttentionTest, InHalfPrecisionIsWithinItsRounding) {
  LinearAttentionInput in = random_input(GetParam());
  in.qkv = in.qkv.detach().to(torch::kBFloat16).to(torch::kDouble).requires_grad_(true);
  LinearAttentionInput half = in;
  half.qkv = in.qkv.detach().to(torch::kBFloat16).requires_grad_(true);
  EXPECT_LT(distance(results(half, linear_attention_grid), results(in, by_rows)), 8e-3);
}

class FirstLinearAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(FirstLinearAttentionTest, EqualsTheFirstQueryOfAll) {
  const LinearAttentionInput in = random_input(GetParam());
  const Tensor first = in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong);
  const Tensor q = in.qkv.detach().index_select(0, first).select(1, 0).contiguous().requires_grad_(true);
  const Tensor kv = in.qkv.detach().narrow(1, 1, 2).contiguous().requires_grad_(true);
  for (const bool portable : {false, true}) {
    q.mutable_grad() = kv.mutable_grad() = Tensor();
    std::optional<PortablePath> path;
    if (portable) path.emplace();
    const Tensor out = linear_attention_first({q, kv, in.rows, in.map, in.projection});
    const Tensor whole = by_rows(in).index_select(0, first);
    EXPECT_LT((out - whole).abs().max().item<double>(), 1e-11);
    const Tensor weights = torch::cos(torch::arange(out.numel(), torch::kDouble)).view(out.sizes());
    (out * weights).sum().backward();
    in.qkv.mutable_grad() = Tensor();
    (whole * weights).sum().backward();
    EXPECT_LT((kv.grad() - in.qkv.grad().narrow(1, 1, 2)).abs().max().item<double>(), 1e-11);
    EXPECT_LT((q.grad() - in.qkv.grad().index_select(0, first).select(1, 0)).abs().max().item<double>(),
              1e-11);
  }
}

std::vector<Case> cases(const std::vector<bool>& forms) {
  std::vector<Case> all;
  for (const FeatureMap map : {FeatureMap::kElu, FeatureMap::kRelu, FeatureMap::kSoftmax}) {
    for (const bool causal : forms) {
      all.push_back({{7, 1, 4}, 3, 5, 6, map, true, causal});
      all.push_back({{65, 3, 130}, 2, 16, 40, map, false, causal});
      all.push_back({{300, 17}, 1, 8, 33, map, true, causal});
      all.push_back({{128, 128}, 2, 4, 16, map, true, causal});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(OddSizes, LinearAttentionTest, testing::ValuesIn(cases({false, true})));
INSTANTIATE_TEST_SUITE_P(OddSizes, FirstLinearAttentionTest, testing::ValuesIn(cases({false})));

// exp(ω·x) overflows single precision beyond 88; here exponents differ by hundreds, also from chunk to chunk.
TEST(LinearAttentionEdgeTest, SoftmaxFeaturesStayFiniteForLargeNumbers) {
  for (const bool causal : {false, true}) {
    LinearAttentionInput in = random_input({{200}, 1, 8, 16, FeatureMap::kSoftmax, true, causal});
    in.qkv = (in.qkv.detach() * torch::linspace(100, 1, 200, torch::kDouble).view({200, 1, 1, 1}))
                 .to(torch::kFloat)
                 .requires_grad_(true);
    for (auto* core : {linear_attention, linear_attention_grid}) {
      for (const Tensor& t : results(in, core)) EXPECT_TRUE(torch::isfinite(t).all().item<bool>()) << causal;
    }
  }
}

TEST(LinearAttentionEdgeTest, ACausalRowDoesNotSeeItsFuture) {
  for (const FeatureMap map : {FeatureMap::kElu, FeatureMap::kRelu, FeatureMap::kSoftmax}) {
    LinearAttentionInput in = random_input({{150}, 2, 8, 16, map, true, true});
    in.qkv = in.qkv.detach();
    for (auto* core : {linear_attention, linear_attention_grid}) {
      const Tensor before = core(in);
      LinearAttentionInput changed = in;
      changed.qkv = in.qkv.clone();
      changed.qkv.narrow(0, 100, 50).add_(1.5);
      const Tensor after = core(changed);
      EXPECT_LT((before - after).narrow(0, 0, 100).abs().max().item<double>(), 1e-12);
      EXPECT_GT((before - after).narrow(0, 100, 50).abs().max().item<double>(), 1e-3);
    }
  }
}

TEST(LinearAttentionEdgeTest, NotANumberIsPassedOn) {
  LinearAttentionInput in = random_input({{20}, 1, 4, 8, FeatureMap::kElu, true, false});
  in.qkv = in.qkv.detach().clone();
  in.qkv[3][1][0][0] = std::nan("");  // a key
  EXPECT_TRUE(torch::isnan(linear_attention(in)).all().item<bool>());
}

}  // namespace
}  // namespace lra
