#include "kernels/linear_attention/linear_attention_gpu.h"

#include <gtest/gtest.h>

#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  std::vector<int32_t> lengths;
  int64_t H, P, M;
  FeatureMap map;
  double scale = 1;   // of queries and keys
  double offset = 0;  // of values
  int32_t left_over = 0;
  bool packed = true;
};

// In double precision, of numbers that bfloat16 has.
LinearAttentionInput random_input(const Case& c) {
  torch::manual_seed(1);
  LinearAttentionInput in;
  std::vector<int32_t> lengths = c.lengths;
  if (c.left_over > 0) lengths.push_back(c.left_over);
  in.rows = lay_out(lengths, c.packed);
  in.rows.count = static_cast<int64_t>(c.lengths.size());
  in.rows.longest = *std::max_element(c.lengths.begin(), c.lengths.end());
  const auto rounded = [](const Tensor& x) { return x.to(torch::kBFloat16).to(torch::kDouble); };
  in.qkv = torch::randn({in.rows.positions, 3, c.H, c.P}, torch::kDouble);
  in.qkv.narrow(1, 0, 2).mul_(c.scale);
  in.qkv.select(1, 2).add_(c.offset);
  in.qkv = rounded(in.qkv);
  in.map = c.map;
  if (c.map == FeatureMap::kSoftmax) in.projection = rounded(torch::randn({c.M, c.P}, torch::kDouble));
  return in;
}

// The definition, row by row.
Tensor by_rows(const LinearAttentionInput& in) {
  Tensor out = torch::zeros_like(in.qkv.select(1, 0));
  for (int64_t b = 0; b < in.rows.count; ++b) {
    const int64_t at = in.rows.offsets[b].item<int64_t>(), n = in.rows.lengths[b].item<int64_t>();
    const auto x = in.qkv.narrow(0, at, n).permute({1, 2, 0, 3}).unbind(0);  // 3 × [H, n, P]
    const Tensor row = linear_attention_reference({x[0], x[1], x[2], in.map, in.projection});
    out = out.slice_scatter(row.transpose(0, 1), 0, at, at + n);
  }
  return out;
}

Tensor weights_like(const Tensor& out) {
  return torch::cos(torch::arange(out.numel(), torch::kDouble)).view(out.sizes()).to(torch::kBFloat16);
}

// Output and gradients of q, k and v, as double on the CPU, under a fixed weighting of the output.
template <class F>
std::vector<Tensor> results(const LinearAttentionInput& in, const F& core) {
  LinearAttentionInput own = in;
  own.qkv = in.qkv.detach().requires_grad_(true);
  const Tensor out = core(own);
  out.backward(weights_like(out.detach().cpu()).to(out.options()));
  const auto d = own.qkv.grad().to(torch::kCPU, torch::kDouble).unbind(1);
  return {out.detach().to(torch::kCPU, torch::kDouble), d[0], d[1], d[2]};
}

Rows moved(const Rows& rows, const TestDevice& device) {
  Rows out = rows;
  for (Tensor* t : {&out.offsets, &out.lengths, &out.slots}) *t = device.copy(*t);
  return out;
}

std::vector<Tensor> results_of_kernel(const LinearAttentionInput& in, const TestDevice& device) {
  LinearAttentionInput there = in;
  there.qkv = device.copy(in.qkv.to(torch::kBFloat16));
  there.rows = moved(in.rows, device);
  if (in.projection.defined()) there.projection = device.copy(in.projection);
  return device.run([&] { return results(there, linear_attention); });
}

// ‖ours − expected‖ / ‖expected‖ is below the tolerance, and no element is off by more than twice of it.
void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected, double tolerance,
                  const Case& c) {
  ASSERT_EQ(ours.size(), expected.size());
  const char* const names[] = {"out", "d_q", "d_k", "d_v"};
  for (size_t i = 0; i < ours.size(); ++i) {
    const Tensor error = ours[i] - expected[i];
    const std::string name = std::string(names[i]) + ", map " + std::to_string(static_cast<int>(c.map)) +
                             ", P " + std::to_string(c.P) + ", M " + std::to_string(c.M);
    EXPECT_LT(error.norm().item<double>(), tolerance * expected[i].norm().item<double>()) << name;
    EXPECT_LT(error.abs().max().item<double>(), 2 * tolerance * expected[i].abs().max().item<double>())
        << name;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const FeatureMap map : {FeatureMap::kElu, FeatureMap::kRelu, FeatureMap::kSoftmax}) {
    all.push_back({{1, 37, 300}, 2, 8, 20, map});
    all.push_back({{37, 1, 5}, 3, 16, 33, map});
    all.push_back({{130, 64}, 2, 32, 256, map});
    all.push_back({{150, 1, 20}, 2, 40, 100, map, 1, 0, 9});  // with positions left over
    all.push_back({{65, 3, 300}, 1, 48, 7, map, 1, 0, 0, false});
    all.push_back({{300, 37}, 2, 64, 96, map});
    all.push_back({{33, 70}, 1, 128, 40, map});
    all.push_back({{400}, 1, 64, 256, map, 1, 3});  // values that are mostly their mean
  }
  return all;
}

class LinearAttentionGpuTest : public testing::TestWithParam<Case> {};

TEST_P(LinearAttentionGpuTest, IsWithinTheRoundingOfHalfPrecision) {
  const TestDevice device;
  const LinearAttentionInput in = random_input(GetParam());
  expect_close(results_of_kernel(in, device), results(in, by_rows), 1e-2, GetParam());
}

TEST_P(LinearAttentionGpuTest, OfTheFirstQueryIsTheSame) {
  const TestDevice device;
  const LinearAttentionInput in = random_input(GetParam());
  const Tensor first = in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong);
  const auto expected =
      results(in, [&](const LinearAttentionInput& x) { return by_rows(x).index_select(0, first); });
  const auto ours = device.run([&] {
    const Tensor half = in.qkv.to(torch::kBFloat16);
    FirstLinearAttentionInput x{device.copy(half.index_select(0, first).select(1, 0).contiguous()),
                                device.copy(half.narrow(1, 1, 2).contiguous()), moved(in.rows, device),
                                in.map, in.projection.defined() ? device.copy(in.projection) : Tensor()};
    x.q.requires_grad_(true);
    x.kv.requires_grad_(true);
    const Tensor out = linear_attention_first(x);
    out.backward(weights_like(out.detach().cpu()).to(out.options()));
    std::vector<Tensor> all{out.detach(), x.q.grad(), x.kv.grad().select(1, 0), x.kv.grad().select(1, 1)};
    for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble);
    return all;
  });
  expect_close(ours, {expected[0], expected[1].index_select(0, first), expected[2], expected[3]}, 1e-2,
               GetParam());
}

INSTANTIATE_TEST_SUITE_P(OddSizes, LinearAttentionGpuTest, testing::ValuesIn(cases()));

// Exponents beyond ±80: what single precision cannot hold without the largest taken out. A query then sees
// few keys, and gradients are differences of nearly equal numbers.
TEST(LinearAttentionGpuEdgeTest, LargeExponentsAreRight) {
  const TestDevice device;
  for (const Case& c : {Case{{200}, 1, 16, 40, FeatureMap::kSoftmax, 12},
                        {{150, 7}, 1, 64, 64, FeatureMap::kSoftmax, 6},
                        {{60, 1}, 1, 16, 16, FeatureMap::kElu, 12}}) {
    const LinearAttentionInput in = random_input(c);
    expect_close(results_of_kernel(in, device), results(in, by_rows), 3e-2, c);
  }
}

TEST(LinearAttentionGpuEdgeTest, ExponentsThatFallAlongTheRowStayFinite) {
  const TestDevice device;
  LinearAttentionInput in = random_input({{300}, 1, 16, 40, FeatureMap::kSoftmax});
  for (const bool rising : {false, true}) {
    const Tensor scale = rising ? torch::linspace(1, 100, 300) : torch::linspace(100, 1, 300);
    in.qkv = (random_input({{300}, 1, 16, 40, FeatureMap::kSoftmax}).qkv * scale.view({300, 1, 1, 1}))
                 .to(torch::kBFloat16)
                 .to(torch::kDouble);
    for (const Tensor& t : results_of_kernel(in, device)) EXPECT_TRUE(torch::isfinite(t).all().item<bool>());
  }
}

// Denominators so small that ε counts.
TEST(LinearAttentionGpuEdgeTest, EpsilonIsInTheDenominator) {
  const TestDevice device;
  const Case c{{20, 3}, 1, 16, 16, FeatureMap::kElu};
  LinearAttentionInput in = random_input(c);
  in.qkv.narrow(1, 0, 2).sub_(8);
  in.qkv = in.qkv.to(torch::kBFloat16).to(torch::kDouble);
  expect_close(results_of_kernel(in, device), results(in, by_rows), 1e-2, c);
}

TEST(LinearAttentionGpuEdgeTest, PositionsOfNoRowGetZeros) {
  const TestDevice device;
  for (const bool packed : {true, false}) {
    const LinearAttentionInput in = random_input({{40, 3}, 2, 8, 20, FeatureMap::kSoftmax, 1, 0, 11, packed});
    Tensor inside = torch::zeros({in.rows.positions}, torch::kBool);
    for (int64_t b = 0; b < in.rows.count; ++b) {
      inside.narrow(0, in.rows.offsets[b].item<int64_t>(), in.rows.lengths[b].item<int64_t>()).fill_(true);
    }
    for (const Tensor& t : results_of_kernel(in, device)) {
      const Tensor used = (t != 0).flatten(1).any(1);
      EXPECT_TRUE(torch::equal(used, inside));
    }
  }
}

TEST(LinearAttentionGpuEdgeTest, NotANumberIsPassedOn) {
  const TestDevice device;
  for (const FeatureMap map : {FeatureMap::kElu, FeatureMap::kRelu, FeatureMap::kSoftmax}) {
    LinearAttentionInput in = random_input({{20}, 1, 8, 8, map});
    in.qkv[3][1][0][0] = std::nan("");  // a key
    EXPECT_TRUE(torch::isnan(results_of_kernel(in, device)[0]).all().item<bool>()) << static_cast<int>(map);
  }
}

TEST(LinearAttentionGpuEdgeTest, GivesTheSameBitsEveryTime) {
  const TestDevice device;
  for (const FeatureMap map : {FeatureMap::kElu, FeatureMap::kSoftmax}) {
    const LinearAttentionInput in = random_input({{300, 37}, 2, 64, 100, map});
    const auto once = results_of_kernel(in, device), again = results_of_kernel(in, device);
    for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << i;
  }
}

TEST(LinearAttentionGpuEdgeTest, OtherSizesAreLeftToTensorOperations) {
  const auto can = [](int64_t P, int64_t M, bool causal, torch::Dtype type) {
    LinearAttentionInput in = random_input({{4}, 1, P, M, FeatureMap::kSoftmax});
    in.qkv = in.qkv.to(type);
    in.causal = causal;
    return linear_attention_gpu_can(in);
  };
  EXPECT_TRUE(can(64, 256, false, torch::kBFloat16));
  EXPECT_FALSE(can(64, 256, false, torch::kFloat));
  EXPECT_FALSE(can(64, 256, true, torch::kBFloat16));
  EXPECT_FALSE(can(64, 257, false, torch::kBFloat16));
  EXPECT_FALSE(can(12, 16, false, torch::kBFloat16));
  EXPECT_FALSE(can(72, 129, false, torch::kBFloat16));
  EXPECT_FALSE(can(136, 16, false, torch::kBFloat16));
}

}  // namespace
}  // namespace lra
