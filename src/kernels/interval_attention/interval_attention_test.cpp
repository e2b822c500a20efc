#include "kernels/interval_attention/interval_attention.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/interval_attention/interval_blocks.h"
#include "kernels/portable.h"

namespace lra {
namespace {

// A pattern that has everything: blocks of 6 queries; the keys of the block itself in a band; two side keys,
// positions 0 and 1 again, or a table of their own; the first position of a row sees the whole row.
struct Case {
  std::vector<int32_t> lengths;
  bool packed = true;
  double dropout = 0;
  bool own_side = false;
};

constexpr int64_t kBlock = 6, kLow = -3, kHigh = 2;

struct Example {
  IntervalAttentionInput in;
  std::vector<Tensor> inputs;  // with gradients
};

Example example(const Case& c, torch::Dtype type) {
  torch::manual_seed(1);
  Example e;
  IntervalAttentionInput& in = e.in;
  in.rows = lay_out(c.lengths, c.packed, 1);
  const int64_t T = in.rows.positions, H = 3, P = 5, B = in.rows.count;
  in.qkv = torch::randn({T, 3, H, P}, torch::kDouble).to(type).requires_grad_(true);
  e.inputs = {in.qkv};
  in.dropout = {c.dropout, 3, 9, torch::full({1}, 4, torch::kLong), in.rows.slots};
  in.side.pitch = 2;
  if (c.own_side) {
    in.side.kv = torch::randn({B * 2, 2, H, P}, torch::kDouble).to(type).requires_grad_(true);
    e.inputs.push_back(in.side.kv);
  } else {
    in.side.at = (in.rows.offsets.narrow(0, 0, B).unsqueeze(1) + torch::arange(2, torch::kInt))
                     .clamp_max(static_cast<int32_t>(T - 1))
                     .flatten();
  }
  const RowBlocks rows = row_blocks(in.rows, kBlock, 1);
  const Tensor side = (torch::arange(B, torch::kInt) * 2).unsqueeze(1).expand_as(rows.first);
  IntervalBlocks blocks{.size = kBlock,
                        .first = rows.first,
                        .last = rows.last,
                        .slots = {{.column = 0, .width = kBlock + 5, .banded = true},
                                  {.column = kBlock + 5, .width = 2, .side = true}},
                        .begin = slot_table({torch::maximum(rows.first - 3, rows.start), side}),
                        .end = slot_table({torch::minimum(rows.last + 2, rows.end), side + 2}),
                        .low = kLow,
                        .high = kHigh};
  in.blocks = {open_first(in.rows), blocks};
  return e;
}

// The same from the definition: the side keys follow the row's own.
Tensor reference(const IntervalAttentionInput& in) {
  std::vector<Tensor> parts;
  int64_t end = 0;
  const auto pad = [&](int64_t n) {
    parts.push_back(torch::zeros({n, in.qkv.size(2), in.qkv.size(3)}, in.qkv.options()));
  };
  for (int64_t b = 0; b < in.rows.count; ++b) {
    const int64_t at = in.rows.offsets[b].item<int64_t>(), n = in.rows.lengths[b].item<int64_t>();
    pad(at - end);
    const auto heads = in.qkv.narrow(0, at, n).permute({1, 2, 0, 3}).unbind(0);
    const Tensor side = in.side.kv.defined() ? in.side.kv.narrow(0, 2 * b, 2)
                                             : in.qkv.narrow(1, 1, 2).index_select(
                                                   0, in.side.at.narrow(0, 2 * b, 2).to(torch::kLong));
    const auto extra = side.permute({1, 2, 0, 3}).unbind(0);
    const auto column = [&](int64_t, int64_t i, int64_t j) -> int64_t {
      if (i == 0) return j < n ? j : -1;
      if (j >= n) return kBlock + 5 + j - n;
      const int64_t begin = std::max<int64_t>((i - 1) / kBlock * kBlock + 1 - 3, 1);
      const int64_t last = std::min(((i - 1) / kBlock + 1) * kBlock + 1 + 2, n);
      return j >= begin && j < last && j - i >= kLow && j - i <= kHigh ? j - begin : -1;
    };
    parts.push_back(dense_attention(heads[0], torch::cat({heads[1], extra[0]}, 1),
                                    torch::cat({heads[2], extra[1]}, 1), column, in.dropout, 1 + b)
                        .transpose(0, 1));
    end = at + n;
  }
  pad(in.qkv.size(0) - end);
  return torch::cat(parts);
}

std::vector<Tensor> with_gradients(const Tensor& out, const std::vector<Tensor>& inputs) {
  const Tensor weights =
      torch::cos(torch::arange(out.numel(), torch::kDouble)).view(out.sizes()).to(out.dtype());
  auto results = torch::autograd::grad({(out * weights).sum()}, inputs);
  results.insert(results.begin(), out.detach());
  return results;
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected, double tolerance) {
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(
        torch::allclose(ours[i].to(torch::kDouble), expected[i].to(torch::kDouble), tolerance, tolerance))
        << i << ": " << (ours[i] - expected[i]).abs().max();
  }
}

class IntervalAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(IntervalAttentionTest, EqualsItsDefinitionInDoublePrecision) {
  const Example e = example(GetParam(), torch::kDouble);
  expect_close(with_gradients(interval_attention(e.in).out, e.inputs),
               with_gradients(reference(e.in), e.inputs), 1e-11);
}

TEST_P(IntervalAttentionTest, OtherDevicesComputeTheSame) {
  const Example e = example(GetParam(), torch::kDouble);
  const PortablePath portable;
  expect_close(with_gradients(interval_attention(e.in).out, e.inputs),
               with_gradients(reference(e.in), e.inputs), 1e-11);
}

TEST_P(IntervalAttentionTest, InSinglePrecisionIsWithinItsRounding) {
  const Example single = example(GetParam(), torch::kFloat), e = example(GetParam(), torch::kDouble);
  expect_close(with_gradients(interval_attention(single.in).out, single.inputs),
               with_gradients(reference(e.in), e.inputs), 1e-4);
}

// What a GPU computes in.
TEST_P(IntervalAttentionTest, OtherDevicesInHalfPrecisionAreWithinItsRounding) {
  const Example half = example(GetParam(), torch::kBFloat16), e = example(GetParam(), torch::kDouble);
  if (GetParam().dropout > 0) return;  // the CPU's dropout knows no bf16
  const Tensor expected = reference(e.in);
  const PortablePath portable;
  expect_close(with_gradients(interval_attention(half.in).out, half.inputs),
               with_gradients(expected, e.inputs), 0.1);
}

// Over both outputs: what combines several of these needs the gradient through the log-sum-exp.
TEST_P(IntervalAttentionTest, TheLogSumExpIsDifferentiable) {
  const Example e = example(GetParam(), torch::kDouble);
  const auto results = [&] {
    const IntervalAttentionOutput y = interval_attention(e.in);
    return with_gradients(y.out * torch::tanh(y.lse).unsqueeze(2), e.inputs);
  };
  const auto fused = results();
  const PortablePath portable;
  expect_close(fused, results(), 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Rows, IntervalAttentionTest,
                         testing::Values(Case{{20, 13}}, Case{{1, 2, 31}, false}, Case{{29, 7, 1}, true, 0.3},
                                         Case{{8, 8}, true, 0.5}, Case{{17, 3, 24}, true, 0, true},
                                         Case{{5, 26}, false, 0.2, true}));

// Sorted rows, two rounds, and a query that sees itself only where it sees nothing else.
struct Sorted {
  IntervalAttentionInput in;
  Tensor order;  // [R·H, T]
};

Sorted sorted_example(bool banded) {
  torch::manual_seed(2);
  Sorted s;
  IntervalAttentionInput& in = s.in;
  in.rows = lay_out({14, 1, 9}, true);
  const int64_t T = in.rows.positions, H = 2, P = 4;
  in.qkv = torch::randn({T, 3, H, P}, torch::kDouble).requires_grad_(true);
  std::vector<Tensor> orders;
  for (int64_t h = 0; h < 2 * H; ++h) {
    orders.push_back(torch::cat({torch::randperm(14, torch::kInt), torch::full({1}, 14, torch::kInt),
                                 torch::randperm(9, torch::kInt) + 15}));
  }
  in.order = s.order = torch::stack(orders);
  if (banded) in.least = torch::arange(T, torch::kInt).sub(3).clamp_min(0).repeat({2 * H, 1}).contiguous();
  in.spare_self = true;
  const RowBlocks rows = row_blocks(in.rows, 4);
  in.blocks = {{.size = 4,
                .first = rows.first,
                .last = rows.last,
                .slots = {{.column = 0, .width = 8, .banded = banded}},
                .begin = slot_table({torch::maximum(rows.first - 4, rows.start)}),
                .end = slot_table({rows.last}),
                .low = -100,
                .high = 0}};
  return s;
}

// lse and output by loops over places.
IntervalAttentionOutput sorted_reference(const Sorted& s, bool banded) {
  const IntervalAttentionInput& in = s.in;
  const int64_t T = in.rows.positions, H = in.qkv.size(2);
  std::vector<Tensor> out(static_cast<size_t>(T * 2 * H)), lse(out.size());
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t at = in.rows.offsets[b].item<int64_t>(), n = in.rows.lengths[b].item<int64_t>();
    for (int64_t h = 0; h < 2 * H; ++h) {
      for (int64_t i = at; i < at + n; ++i) {
        std::vector<Tensor> scores, values;
        const int64_t block = at + (i - at) / 4 * 4, query = s.order[h][i].item<int64_t>();
        for (int64_t j = std::max(at, block - 4); j < std::min(at + n, block + 4); ++j) {
          if (banded && (j > i || j < i - 3)) continue;
          const int64_t key = s.order[h][j].item<int64_t>();
          scores.push_back((in.qkv[query][0][h % H] * in.qkv[key][1][h % H]).sum() / 2 - (i == j ? 1e5 : 0));
          values.push_back(in.qkv[key][2][h % H]);
        }
        const Tensor all = torch::stack(scores);
        const auto where = static_cast<size_t>(query * 2 * H + h);
        lse[where] = torch::logsumexp(all, 0);
        out[where] = torch::matmul(torch::softmax(all, 0), torch::stack(values));
      }
    }
  }
  return {torch::stack(out).view({T, 2 * H, -1}), torch::stack(lse).view({T, 2 * H})};
}

class SortedIntervalTest : public testing::TestWithParam<bool> {};

TEST_P(SortedIntervalTest, EqualsItsDefinition) {
  const Sorted s = sorted_example(GetParam());
  const auto results = [&](const IntervalAttentionOutput& y) {
    return with_gradients(y.out * torch::tanh(y.lse).unsqueeze(2), {s.in.qkv});
  };
  const auto expected = results(sorted_reference(s, GetParam()));
  expect_close(results(interval_attention(s.in)), expected, 1e-10);
  const PortablePath portable;
  expect_close(results(interval_attention(s.in)), expected, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Bands, SortedIntervalTest, testing::Bool());

}  // namespace
}  // namespace lra
