#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/philox.h"
#include "kernels/interval_attention/interval_attention_plan.h"
#include "kernels/interval_attention/interval_blocks.h"
#include "kernels/portable.h"
#include "support/test_device.h"

namespace lra {
namespace {

// Rows of these lengths; the last one is left over, no row of the batch.
Rows rows_of(const std::vector<int32_t>& lengths, bool packed) {
  Rows rows = lay_out(lengths, packed, 2);
  --rows.count;
  rows.lengths = rows.lengths.narrow(0, 0, rows.count);
  rows.longest = rows.lengths.max().item<int64_t>();
  return rows;
}

struct Sizes {
  std::vector<int32_t> lengths;
  bool packed = true;
  int64_t heads = 2, width = 16;
  double dropout = 0;
};

// Everything on the CPU, in double precision.
IntervalAttentionInput input_of(const Sizes& s, int64_t rounds = 1) {
  torch::manual_seed(3);
  IntervalAttentionInput in;
  in.rows = rows_of(s.lengths, s.packed);
  in.qkv = torch::randn({in.rows.positions, 3, s.heads, s.width}, torch::kDouble);
  in.dropout = {s.dropout, 3, 9, torch::full({1}, 4, torch::kLong), in.rows.slots};
  if (rounds > 1) in.dropout = {};
  return in;
}

Tensor side_begin(const Rows& rows, int64_t pitch) {
  return (torch::arange(rows.count, torch::kInt) * pitch).unsqueeze(1);
}

// The patterns of the models, each with everything that the model makes use of.

IntervalAttentionInput local(const Sizes& s, int64_t size, bool causal) {
  IntervalAttentionInput in = input_of(s);
  const RowBlocks rows = row_blocks(in.rows, size);
  in.blocks = {{.size = size,
                .first = rows.first,
                .last = rows.last,
                .slots = {{.column = 0, .width = size, .banded = causal}},
                .begin = slot_table({rows.first}),
                .end = slot_table({rows.last}),
                .low = -size}};
  return in;
}

// The first position of a row is no query, but a key of all.
IntervalAttentionInput window(const Sizes& s, int64_t size, int64_t left, int64_t right) {
  IntervalAttentionInput in = input_of(s);
  const RowBlocks rows = row_blocks(in.rows, size);
  const Tensor start = rows.start + 1, cls = rows.start.expand_as(rows.first);
  in.blocks = {
      {.size = size,
       .first = torch::maximum(rows.first, start),
       .last = rows.last,
       .slots = {{.column = 0, .width = 1}, {.column = 1, .width = size + left + right, .banded = true}},
       .begin = slot_table({cls, torch::maximum(rows.first - left, start)}),
       .end = slot_table({cls + 1, torch::minimum(rows.last + right, rows.end)}),
       .low = -left,
       .high = right}};
  return in;
}

// Side keys are positions again: the last two of every block before a block's own.
IntervalAttentionInput summaries(const Sizes& s, int64_t size) {
  IntervalAttentionInput in = input_of(s);
  const RowBlocks rows = row_blocks(in.rows, size, 1);
  in.side.pitch = rows.count * 2;
  const Tensor place = torch::arange(in.side.pitch, torch::kInt).unsqueeze(0);
  const Tensor block = torch::floor_divide(place, 2);
  in.side.at = torch::minimum(rows.start + block * size + (size - 2) + (place - block * 2), rows.end - 1)
                   .clamp_min(0)
                   .to(torch::kInt)
                   .flatten();
  const Tensor cls = (rows.start - 1).expand_as(rows.first), side = side_begin(in.rows, in.side.pitch);
  in.blocks = {{.size = size,
                .first = rows.first,
                .last = rows.last,
                .slots = {{.column = 0, .width = 1},
                          {.column = 1, .width = size, .banded = true},
                          {.column = 1 + size, .width = rows.count * 2, .side = true, .growth = 2}},
                .begin = slot_table({cls, rows.first, side.expand_as(rows.first)}),
                .end = slot_table({cls + 1, rows.last, side + rows.index * 2}),
                .low = -size},
               open_first(in.rows)};
  return in;
}

// Side keys of their own: as many as a block has.
IntervalAttentionInput sorted_blocks(const Sizes& s, int64_t size) {
  IntervalAttentionInput in = input_of(s);
  const RowBlocks rows = row_blocks(in.rows, size, 1);
  in.side.pitch = rows.count * size;
  in.side.kv = torch::randn({in.rows.count * in.side.pitch, 2, s.heads, s.width}, torch::kDouble);
  const Tensor cls = (rows.start - 1).expand_as(rows.first);
  const Tensor side = side_begin(in.rows, in.side.pitch) + rows.index * size;
  in.blocks = {{.size = size,
                .first = rows.first,
                .last = rows.last,
                .slots = {{.column = 0, .width = 1},
                          {.column = 1, .width = size},
                          {.column = 1 + size, .width = size, .side = true}},
                .begin = slot_table({cls, rows.first, side}),
                .end = slot_table({cls + 1, rows.last,
                                   side + (rows.end - rows.start).clamp_max(size).expand_as(rows.first)}),
                .low = 0},
               open_first(in.rows)};
  return in;
}

// Blocks that see all, and blocks that see neighbours and others, different ones for each head.
IntervalAttentionInput random_blocks(const Sizes& s, int64_t size) {
  IntervalAttentionInput in = input_of(s);
  const RowBlocks rows = row_blocks(in.rows, size);
  const Tensor last = torch::maximum(rows.start + (rows.used - 1) * size, rows.start);
  const Tensor first_end = torch::minimum(rows.start + size, rows.end);
  const Tensor begins = torch::cat({rows.start, torch::maximum(last, first_end)}, 1);
  const IntervalBlocks global{.size = std::min(size, in.rows.longest),
                              .first = begins,
                              .last = torch::cat({first_end, rows.end}, 1),
                              .slots = {{.column = 0, .width = in.rows.longest}},
                              .begin = slot_table({rows.start.expand_as(begins)}),
                              .end = slot_table({rows.end.expand_as(begins)})};
  const Tensor inner = (rows.index >= 1).logical_and(rows.index < rows.used - 1);
  IntervalBlocks others{.size = size,
                        .first = rows.first,
                        .last = torch::where(inner, rows.last, rows.first),
                        .slots = {{.column = 0, .width = size},
                                  {.column = size, .width = 3 * size},
                                  {.column = 4 * size, .width = size}}};
  const Tensor start = rows.start.expand_as(rows.first);
  const auto at = [&](const Tensor& block) { return rows.start + block * size; };
  const auto table = [&](const std::vector<Tensor>& shared, const Tensor& own) {
    return torch::cat({slot_table(shared).expand({-1, s.heads, -1, -1}), own}, 3)
        .to(torch::kInt)
        .contiguous();
  };
  const Tensor chosen = (torch::rand({in.rows.count, s.heads, rows.count, 1}) * rows.used.view({-1, 1, 1, 1}))
                            .to(torch::kInt)
                            .clamp_min(0);
  const Tensor random = rows.start.view({-1, 1, 1, 1}) + chosen * size;
  others.begin = table({start, at((rows.index - 1).clamp_min(0)), last.expand_as(start)}, random);
  others.end = table({torch::minimum(start + size, rows.end), torch::minimum(at(rows.index + 2), rows.end),
                      rows.end.expand_as(start)},
                     torch::minimum(random + size, rows.end.view({-1, 1, 1, 1})));
  others.slots.push_back({.column = 5 * size, .width = size});
  in.blocks = {global, others};
  return in;
}

// Any intervals of any slots, some of them empty, some over each other: what no model makes.
IntervalAttentionInput any_intervals(uint64_t seed) {
  Rng rng(seed, stream_id("interval_attention_gpu_test"));
  const auto from = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.below(static_cast<uint32_t>(high - low + 1)));
  };
  Sizes s;
  for (int i = 0; i < 3; ++i) s.lengths.push_back(static_cast<int32_t>(from(1, 150)));
  s.packed = rng.below(2) == 0;
  s.heads = from(1, 3);
  s.width = 8 * from(1, 10);
  s.dropout = rng.below(2) == 0 ? 0.25 : 0;
  IntervalAttentionInput in = input_of(s);
  const int64_t B = in.rows.count, lead = from(0, 1), size = from(5, 130), side = from(0, 2);
  const RowBlocks rows = row_blocks(in.rows, size, lead);
  in.side.pitch = side > 0 ? from(1, 90) : 0;
  if (side == 1) in.side.kv = torch::randn({B * in.side.pitch, 2, s.heads, s.width}, torch::kDouble);
  if (side == 2) {
    const Tensor share = torch::rand({B, in.side.pitch}) * in.rows.lengths.unsqueeze(1);
    in.side.at = (in.rows.offsets.narrow(0, 0, B).unsqueeze(1) + share.to(torch::kInt)).flatten();
  }
  IntervalBlocks blocks{.size = size, .first = rows.first, .last = rows.last, .slots = {}};
  blocks.low = -from(0, 60);
  blocks.high = from(0, 60);
  std::vector<Tensor> begin, end;
  const int64_t table_heads = rng.below(2) == 0 ? 1 : s.heads;
  for (int64_t slot = from(1, 4); slot > 0; --slot) {
    const bool of_side = side > 0 && rng.below(2) == 0;
    const KeySlot k{.column = blocks.columns(),
                    .width = from(1, 170),
                    .banded = !of_side && rng.below(2) == 0,
                    .side = of_side};
    blocks.slots.push_back(k);
    const std::vector<int64_t> shape = {B, table_heads, rows.count};
    const Tensor first =
        (of_side ? side_begin(in.rows, in.side.pitch) : in.rows.offsets.narrow(0, 0, B)).view({B, 1, 1});
    const Tensor n = of_side ? torch::full({B, 1, 1}, in.side.pitch) : in.rows.lengths.view({B, 1, 1});
    const Tensor at = (torch::rand(shape) * (n + 1)).to(torch::kInt);
    const Tensor count = torch::randint(-2, k.width + 1, shape);
    begin.push_back((first + at).to(torch::kInt));
    end.push_back((first + torch::minimum(at + count, n)).to(torch::kInt));
  }
  blocks.begin = torch::stack(begin, 3).contiguous();
  blocks.end = torch::stack(end, 3).contiguous();
  in.blocks = {blocks};
  if (lead > 0) in.blocks.push_back(open_first(in.rows));
  return in;
}

// Sorted rows, two rounds, a query that sees itself only where it sees nothing else.
IntervalAttentionInput hashed(const Sizes& s, int64_t size, bool causal) {
  IntervalAttentionInput in = input_of(s, 2);
  const int64_t T = in.rows.positions;
  std::vector<Tensor> orders;
  for (int64_t h = 0; h < 2 * s.heads; ++h) {
    Tensor order = torch::arange(T, torch::kInt);
    for (int64_t b = 0; b < in.rows.count; ++b) {
      const int64_t at = in.rows.offsets[b].item<int64_t>(), n = in.rows.lengths[b].item<int64_t>();
      order.narrow(0, at, n).copy_(torch::randperm(n, torch::kInt) + static_cast<int32_t>(at));
    }
    orders.push_back(order);
  }
  in.order = torch::stack(orders);
  in.spare_self = true;
  const RowBlocks rows = row_blocks(in.rows, size);
  IntervalBlocks blocks{.size = size, .first = rows.first, .last = rows.last, .slots = {}};
  if (causal) {
    // Places that begin a bucket: every fifth or so. Some queries then see nothing but themselves.
    const Tensor place = torch::arange(T, torch::kInt);
    const Tensor begins = torch::where(torch::rand({2 * s.heads, T}) < 0.2, place, torch::zeros_like(place));
    Tensor least = std::get<0>(torch::cummax(begins, 1)).to(torch::kInt);
    for (int64_t b = 0; b < in.rows.count; ++b) {
      const int64_t at = in.rows.offsets[b].item<int64_t>(), n = in.rows.lengths[b].item<int64_t>();
      least.narrow(1, at, n).clamp_min_(static_cast<int32_t>(at));
    }
    in.least = least;
    blocks.slots = {{.column = 0, .width = 2 * size - 1, .banded = true}};
    blocks.begin = slot_table({torch::maximum(rows.first - (size - 1), rows.start)});
    blocks.end = slot_table({rows.last});
    blocks.low = -(size - 1);
  } else {
    const Tensor last_chunk = torch::where(rows.used > 1, rows.start + (rows.used - 1) * size, rows.end);
    blocks.slots = {{.column = 0, .width = size}, {.column = size, .width = size}};
    blocks.begin = slot_table({torch::where(rows.index == 0, last_chunk, rows.first - size), rows.first});
    blocks.end = slot_table({torch::where(rows.index == 0, rows.end, rows.first), rows.last});
  }
  in.blocks = {blocks};
  return in;
}

IntervalAttentionInput moved(const IntervalAttentionInput& in, const torch::Device& device,
                             torch::Dtype type) {
  IntervalAttentionInput out = in;
  for (Tensor* t : {&out.qkv, &out.side.kv}) {
    if (t->defined()) *t = t->to(device, type).detach().requires_grad_(true);
  }
  std::vector<Tensor*> tables = {&out.rows.offsets, &out.rows.lengths, &out.rows.slots,   &out.side.at,
                                 &out.order,        &out.least,        &out.dropout.step, &out.dropout.slots};
  for (auto& b : out.blocks) tables.insert(tables.end(), {&b.first, &b.last, &b.begin, &b.end});
  for (Tensor* t : tables) {
    if (t->defined()) *t = t->to(device);
  }
  return out;
}

// out, lse, then the gradients of qkv and of the side keys; on the CPU in double precision.
std::vector<Tensor> results(const IntervalAttentionInput& in) {
  const IntervalAttentionOutput y = interval_attention(in);
  const auto weighting = [](const Tensor& like, double step) {
    const Tensor w = torch::sin(step * torch::arange(like.numel(), torch::kDouble)).view(like.sizes());
    return w.to(torch::kBFloat16).to(like.device(), like.scalar_type());
  };
  std::vector<Tensor> inputs = {in.qkv};
  if (in.side.kv.defined()) inputs.push_back(in.side.kv);
  std::vector<Tensor> all =
      torch::autograd::grad({y.out, y.lse}, inputs, {weighting(y.out, 0.7), weighting(y.lse, 1.3)});
  all.insert(all.begin(), {y.out.detach(), y.lse.detach()});
  for (Tensor& t : all) t = t.to(torch::kCPU, torch::kDouble);
  return all;
}

// From the same rounded inputs, by tensor operations in double precision.
std::vector<Tensor> expected_results(IntervalAttentionInput in) {
  for (Tensor* t : {&in.qkv, &in.side.kv}) {
    if (t->defined()) *t = t->to(torch::kBFloat16).to(torch::kDouble);
  }
  const PortablePath portable;
  return results(moved(in, torch::kCPU, torch::kDouble));
}

bool kernels_serve(const IntervalAttentionInput& in) {
  return interval_kernels_serve(
      {in.rows, in.blocks, in.dropout, 1, in.side.at, in.order, in.least, in.side.pitch, in.spare_self},
      in.qkv);
}

struct Pattern {
  std::string name;
  IntervalAttentionInput in;
};

// Odd sizes, each width that there are kernels for, rows of one position, blocks larger than a tile and
// smaller ones; few rows, so that the keys of long lists are shared out.
std::vector<Pattern> patterns(const TestDevice& device) {
  const std::vector<int32_t> rows = {101, 1, 67, 9}, long_rows = {device.at_most(301, 2049), 2, 80, 5};
  return {
      {"local", local({rows, true, 3, 16}, 50, false)},
      {"local, causal, dropout", local({rows, false, 2, 40, 0.3}, 33, true)},
      {"local, large blocks", local({long_rows, true, 1, 128, 0.1}, 150, false)},
      {"window", window({long_rows, true, 2, 64}, 64, 70, 60)},
      {"window, dropout", window({rows, true, 2, 32, 0.2}, 64, 20, 13)},
      {"summaries", summaries({rows, false, 2, 24}, 7)},
      {"summaries, dropout", summaries({long_rows, true, 1, 72, 0.2}, 50)},
      {"sorted blocks", sorted_blocks({rows, true, 2, 48}, 50)},
      {"sorted blocks, dropout", sorted_blocks({long_rows, true, 2, 16, 0.1}, 13)},
      {"random blocks", random_blocks({long_rows, true, 2, 64}, 32)},
      {"random blocks, small", random_blocks({rows, true, 3, 8, 0.2}, 5)},
      {"hashed", hashed({rows, true, 2, 64}, 32, false)},
      {"hashed, causal", hashed({rows, true, 2, 16}, 24, true)},
      {"rows of one position", local({{1, 1, 1}, true, 2, 16}, 50, false)},
  };
}

void expect_within_rounding(const TestDevice& device, const Pattern& p) {
  const auto expected = expected_results(p.in);
  const auto ours = device.run([&] {
    const IntervalAttentionInput in = moved(p.in, device, torch::kBFloat16);
    EXPECT_TRUE(kernels_serve(in)) << p.name;
    return results(in);
  });
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    const Tensor error = ours[i] - expected[i];
    EXPECT_LT(error.norm().item<double>(), 1e-2 * expected[i].norm().item<double>() + 1e-6)
        << p.name << ", result " << i;
    EXPECT_LT(error.abs().max().item<double>(), 3e-2 * expected[i].abs().max().item<double>() + 1e-6)
        << p.name << ", result " << i;
  }
}

class IntervalAttentionGpuTest : public testing::TestWithParam<size_t> {};

TEST_P(IntervalAttentionGpuTest, InHalfPrecisionIsWithinItsRounding) {
  const TestDevice device;
  expect_within_rounding(device, patterns(device).at(GetParam()));
}

TEST_P(IntervalAttentionGpuTest, GivesTheSameBitsEveryTime) {
  const TestDevice device;
  const Pattern p = patterns(device).at(GetParam());
  const auto once = device.run([&] { return results(moved(p.in, device, torch::kBFloat16)); });
  const auto again = device.run([&] { return results(moved(p.in, device, torch::kBFloat16)); });
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_TRUE(torch::equal(once[i], again[i])) << p.name << ": " << i;
}

TEST(AnyIntervalsGpuTest, InHalfPrecisionAreWithinItsRounding) {
  const TestDevice device;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    expect_within_rounding(device, {"seed " + std::to_string(seed), any_intervals(seed)});
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, IntervalAttentionGpuTest, testing::Range<size_t>(0, 14));

}  // namespace
}  // namespace lra
