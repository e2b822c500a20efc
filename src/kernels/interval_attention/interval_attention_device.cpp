// The CUDA kernels' form: what they are given, and their scratch. Sizes come from plain numbers, nothing is
// read back from the device, so that a step with it can be recorded as a graph.
#include <algorithm>

#include "kernels/interval_attention/interval_attention_arguments.h"
#include "kernels/interval_attention/interval_attention_plan.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<IntervalForwardArguments> interval_forward_cuda = nullptr;
CudaLauncher<IntervalBackwardArguments> interval_backward_cuda = nullptr;

namespace {

// The one switch: off, other devices than the CPU gather keys by tensor operations.
constexpr bool kUseIntervalKernels = true;

// Blocks of threads that keep a large device busy. Fewer than that share their keys with others.
constexpr int64_t kBusy = 2048;

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t rounds_of(const IntervalPlan& plan, int64_t heads) {
  return plan.order.defined() ? plan.order.size(0) / heads : 1;
}

int64_t query_tiles(const IntervalBlocks& b) {
  return quotient_up(std::max<int64_t>(b.size, 1), kIntervalTile);
}

// Keys of a tile: a block's where that fills most of one, so that blocks of keys that see themselves are one
// tile each.
int64_t key_tile(const IntervalPlan& plan) {
  int64_t size = kIntervalTile, blocks = 0;
  for (const auto& b : plan.blocks) {
    if (b.first.size(1) > blocks) size = b.size;
    blocks = std::max(blocks, b.first.size(1));
  }
  return size >= kIntervalTile / 2 && size <= kIntervalTile ? size : kIntervalTile;
}

const int32_t* ints(const Tensor& t) { return t.defined() ? t.const_data_ptr<int32_t>() : nullptr; }

IntervalData make_data(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side) {
  IntervalData d{};
  d.qkv = qkv.const_data_ptr();
  d.side = side.defined() ? side.const_data_ptr() : nullptr;
  d.side_at = ints(plan.side_at);
  d.order = ints(plan.order);
  d.least = ints(plan.least);
  d.offsets = ints(plan.rows.offsets);
  d.lengths = ints(plan.rows.lengths);
  d.positions = qkv.size(0);
  d.rows = plan.rows.count;
  d.side_pitch = plan.side_pitch;
  d.heads = static_cast<int32_t>(qkv.size(2));
  d.rounds = static_cast<int32_t>(rounds_of(plan, qkv.size(2)));
  d.width = static_cast<int32_t>(qkv.size(3));
  d.scale = static_cast<float>(plan.scale);
  d.self_penalty = plan.spare_self ? static_cast<float>(kSelfPenalty) : 0.0f;
  d.draw = plan.dropout.draw();
  return d;
}

IntervalGroup make_group(const IntervalPlan& plan, const IntervalBlocks& b, int64_t virtual_heads) {
  IntervalGroup g{};
  g.first = ints(b.first);
  g.last = ints(b.last);
  g.begin = ints(b.begin);
  g.end = ints(b.end);
  g.blocks = static_cast<int32_t>(b.first.size(1));
  g.slots = static_cast<int32_t>(b.slots.size());
  g.table_heads = static_cast<int32_t>(b.begin.size(1));
  g.tiles = static_cast<int32_t>(query_tiles(b));
  g.low = static_cast<int32_t>(b.low);
  g.high = static_cast<int32_t>(b.high);
  for (size_t s = 0; s < b.slots.size(); ++s) {
    g.slot[s] = {static_cast<int32_t>(b.slots[s].column), b.slots[s].banded, b.slots[s].side};
  }
  const int64_t tiles = std::max<int64_t>(1, plan.rows.count * virtual_heads * g.blocks * g.tiles);
  g.pieces = static_cast<int32_t>(
      std::clamp<int64_t>(kBusy / tiles, 1, std::max<int64_t>(1, b.columns() / (4 * kIntervalTile))));
  return g;
}

// Scratch for what blocks of threads leave for each other.
struct Pieces {
  Tensor sums, arrived;

  Pieces(const IntervalPlan& plan, const IntervalGroup* groups, size_t count, int64_t virtual_heads,
         int64_t key_slots, const Tensor& qkv) {
    const int64_t P = qkv.size(3);
    int64_t floats = key_slots * interval_key_piece(P), counters = key_slots;
    for (size_t g = 0; g < count; ++g) {
      if (groups[g].pieces == 1) continue;
      const int64_t tiles = plan.rows.count * virtual_heads * groups[g].blocks * groups[g].tiles;
      floats = std::max(floats, tiles * groups[g].pieces * interval_query_piece(P));
      counters = std::max(counters, tiles);
    }
    sums = torch::empty({floats}, qkv.options().dtype(torch::kFloat));
    arrived = torch::zeros({counters}, qkv.options().dtype(torch::kInt));
  }
  float* sum_pointer() const { return sums.mutable_data_ptr<float>(); }
  int32_t* arrived_pointer() const { return arrived.mutable_data_ptr<int32_t>(); }
};

// An IntervalInverse with its memory.
struct Inverse {
  IntervalInverse i{};
  Tensor hits, spans, items, counts;

  Inverse(const IntervalPlan& plan, int64_t heads, bool of_side, bool has_own_side) {
    const int64_t B = plan.rows.count;
    const bool positions_again = of_side && !has_own_side;
    const int64_t width = positions_again ? kIntervalTile : key_tile(plan);
    const int64_t keys = of_side ? plan.side_pitch : plan.rows.longest;
    i.side = of_side;
    i.heads = 1;
    i.width = static_cast<int32_t>(width);
    i.tiles = static_cast<int32_t>(quotient_up(keys, width) + 1);
    i.lead_group = of_side ? -1 : 0;
    i.skips_unseen = positions_again;
    i.slots = static_cast<int32_t>(std::min<int64_t>(64, kBusy / std::max<int64_t>(1, B * heads)));
    int64_t most_hits = 0;
    for (size_t g = 0; g < plan.blocks.size(); ++g) {
      const IntervalBlocks& b = plan.blocks[g];
      const int64_t G = b.first.size(1), tiles = query_tiles(b);
      i.entries += G * tiles * static_cast<int64_t>(b.slots.size());
      if (!of_side && G > plan.blocks[static_cast<size_t>(i.lead_group)].first.size(1)) {
        i.lead_group = static_cast<int32_t>(g);
      }
      for (const KeySlot& slot : b.slots) {
        if (slot.side != of_side) continue;
        i.heads = std::max(i.heads, static_cast<int32_t>(b.begin.size(1)));
        for (int64_t n = 1; n <= G; ++n) {
          const int64_t seen = slot.growth > 0 ? std::min(slot.width, n * slot.growth) : slot.width;
          if (seen > 0) most_hits += tiles * std::min<int64_t>(quotient_up(seen, width) + 2, i.tiles);
        }
      }
    }
    i.most_hits = static_cast<int32_t>(most_hits);
    const int64_t lists = B * i.heads;
    const auto number = plan.rows.offsets.options();
    const auto memory = [&](int64_t n) { return torch::empty({lists * n}, number); };
    hits = memory(most_hits * static_cast<int64_t>(sizeof(IntervalHit) / 4));
    spans = memory(i.entries);
    items = memory((i.tiles + i.slots) * static_cast<int64_t>(sizeof(IntervalItem) / 4));
    counts = memory(1 + i.tiles);
    i.hits = reinterpret_cast<IntervalHit*>(hits.mutable_data_ptr<int32_t>());
    i.spans = reinterpret_cast<uint32_t*>(spans.mutable_data_ptr<int32_t>());
    i.items = reinterpret_cast<IntervalItem*>(items.mutable_data_ptr<int32_t>());
    i.item_count = counts.mutable_data_ptr<int32_t>();
    i.hit_count = i.item_count + lists;
  }
};

}  // namespace

bool interval_kernels_serve(const IntervalPlan& plan, const Tensor& qkv) {
  if (!kUseIntervalKernels || !on_device(qkv) || qkv.scalar_type() != torch::kBFloat16) return false;
  const int64_t P = qkv.size(3), pitch = plan.side_pitch, tile = key_tile(plan);
  if (P % 8 != 0 || P > kIntervalMostWidth || plan.blocks.size() > kIntervalMostGroups) return false;
  if (plan.order.defined() && pitch > 0) return false;
  if (std::max(plan.rows.longest, pitch) / tile + 2 > kIntervalMostKeyTiles) return false;
  if (plan.rows.count > 65535 || plan.rows.count * std::max<int64_t>(pitch, 1) > INT32_MAX) return false;
  return std::all_of(plan.blocks.begin(), plan.blocks.end(), [](const IntervalBlocks& b) {
    return b.slots.size() <= kIntervalMostSlots && b.first.size(1) * query_tiles(b) <= 65535;
  });
}

IntervalAttentionOutput interval_forward_device(const IntervalPlan& plan, const Tensor& qkv,
                                                const Tensor& side) {
  const int64_t T = qkv.size(0), H = qkv.size(2), P = qkv.size(3), R_H = rounds_of(plan, H) * H;
  const IntervalAttentionOutput y{torch::empty({T, R_H, P}, qkv.options()),
                                  torch::zeros({T, R_H}, qkv.options().dtype(torch::kFloat))};
  const Tensor x = aligned(qkv), extra = side.defined() ? aligned(side) : side;
  IntervalForwardArguments a{};
  a.data = make_data(plan, x, extra);
  a.groups = static_cast<int>(plan.blocks.size());
  for (size_t g = 0; g < plan.blocks.size(); ++g) a.group[g] = make_group(plan, plan.blocks[g], R_H);
  const Pieces pieces(plan, a.group, plan.blocks.size(), R_H, 0, x);
  a.out = y.out.mutable_data_ptr();
  a.lse = y.lse.mutable_data_ptr<float>();
  a.pieces = pieces.sum_pointer();
  a.arrived = pieces.arrived_pointer();
  launch(interval_forward_cuda, a, "interval_attention");
  return y;
}

IntervalGradient interval_backward_device(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                                          const IntervalAttentionOutput& y, const Tensor& d_out,
                                          const Tensor& d_lse) {
  const int64_t H = qkv.size(2);
  const Tensor x = aligned(qkv), extra = side.defined() ? aligned(side) : side, out = aligned(y.out),
               above = aligned(d_out);
  const IntervalGradient d{torch::empty_like(x), side.defined() ? torch::empty_like(extra) : Tensor()};
  const Tensor delta = torch::empty_like(y.lse);
  const bool has_side = plan.side_pitch > 0;
  const Tensor side_sums =
      has_side && !side.defined()
          ? torch::empty({plan.rows.count * plan.side_pitch, 2, H, qkv.size(3)}, y.lse.options())
          : Tensor();
  const Inverse own(plan, H, false, side.defined());
  const std::optional<Inverse> of_side =
      has_side ? std::make_optional<Inverse>(plan, H, true, side.defined()) : std::nullopt;
  IntervalBackwardArguments a{};
  a.data = make_data(plan, x, extra);
  a.groups = static_cast<int>(plan.blocks.size());
  for (size_t g = 0; g < plan.blocks.size(); ++g) a.group[g] = make_group(plan, plan.blocks[g], H);
  const Pieces pieces(plan, a.group, plan.blocks.size(), H, plan.rows.count * H * own.i.slots, x);
  a.out = out.const_data_ptr();
  a.d_out = above.const_data_ptr();
  a.lse = y.lse.const_data_ptr<float>();
  const Tensor statistics = d_lse.defined() ? d_lse.to(torch::kFloat).contiguous() : d_lse;
  a.d_lse = statistics.defined() ? statistics.const_data_ptr<float>() : nullptr;
  a.d_qkv = d.qkv.mutable_data_ptr();
  a.d_side = d.side.defined() ? d.side.mutable_data_ptr() : nullptr;
  a.delta = delta.mutable_data_ptr<float>();
  a.side_sums = side_sums.defined() ? side_sums.mutable_data_ptr<float>() : nullptr;
  a.pieces = pieces.sum_pointer();
  a.arrived = pieces.arrived_pointer();
  a.own = own.i;
  if (of_side) a.side = of_side->i;
  launch(interval_backward_cuda, a, "interval_attention backward");
  return d;
}

}  // namespace lra
