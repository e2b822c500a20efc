// CUDA side of interval_attention.h, backward: which tiles of queries see the keys of a tile. The tables say
// which keys a block of queries sees; the gradients of keys need it the other way round. A block of threads
// turns the tables of one row (and head) around:
//
//   1. each interval of each tile of queries: the first and the last tile of keys it touches, counted;
//   2. where the hits of each tile of keys begin, and how they are cut into pieces;
//   3. a warp for each tile of keys: its hits, in the order of the tables, so that sums are always the same.
#include "kernels/interval_attention/interval_attention_steps.cuh"
#include "kernels/interval_attention/interval_tiles.cuh"

namespace lra {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr uint32_t kNoTile = 1u << 16;  // first tile 1, last tile 0

struct InverseGroups {
  IntervalGroup group[kIntervalMostGroups];
  int count;
};

// The keys of the row, and how they are cut into tiles.
struct KeyRow {
  int start, length, lead, width;

  __device__ KeyRow(const IntervalData& d, const InverseGroups& groups, const IntervalInverse& inverse,
                    int row)
      : start(inverse.side ? static_cast<int>(row * d.side_pitch) : d.offsets[row]),
        length(inverse.side ? static_cast<int>(d.side_pitch) : d.lengths[row]),
        lead(0),
        width(inverse.width) {
    if (inverse.lead_group < 0) return;
    const IntervalGroup& group = groups.group[inverse.lead_group];
    lead = (group.first[row * group.blocks] - start) % width;
  }
  __device__ int tile_of(int place) const { return (place - start - lead + width) / width; }
  __device__ bool has(int tile) const {
    return lead + (tile - 1) * width < length && lead + tile * width > 0;
  }
};

// An interval of the tables for one tile of queries.
struct Entry {
  int group, slot;
  IntervalHit hit;

  __device__ Entry(const InverseGroups& groups, int row, int head, int64_t n) : group(0) {
    while (n >= count(groups.group[group])) n -= count(groups.group[group++]);
    const IntervalGroup& g = groups.group[group];
    const auto e = static_cast<int>(n);
    slot = e % g.slots;
    const int tile = e / g.slots % g.tiles, block = e / g.slots / g.tiles;
    const int table_head = g.table_heads == 1 ? 0 : head;
    const int at = row * g.blocks + block;
    const int64_t keys =
        ((static_cast<int64_t>(row) * g.table_heads + table_head) * g.blocks + block) * g.slots;
    hit.first = g.first[at] + tile * kIntervalTile;
    const int left = g.last[at] - hit.first;
    hit.count = left < kIntervalTile ? left : kIntervalTile;
    hit.begin = g.begin[keys + slot];
    hit.end = g.end[keys + slot];
    hit.shift = g.slot[slot].column - hit.begin;
    hit.banded = g.slot[slot].banded;
    hit.low = g.low;
    hit.high = g.high;
  }
  __device__ static int64_t count(const IntervalGroup& g) {
    return static_cast<int64_t>(g.blocks) * g.tiles * g.slots;
  }
};

__device__ inline int warp_sum(int x) {
#pragma unroll
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(kAllLanes, x, o);
  return x;
}
// Of this lane and those before it.
__device__ inline int running_sum(int x) {
#pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    const int other = __shfl_up_sync(kAllLanes, x, o);
    if (this_lane() >= o) x += other;
  }
  return x;
}

__device__ inline int pieces_of(int hits, int most) { return hits > most ? (hits + most - 1) / most : 1; }

// The fewest hits of a piece for which there is scratch for all pieces.
__device__ int choose_piece(const int32_t* counts, const IntervalInverse& inverse) {
  for (int most = 16;; most *= 2) {
    int pieces = 0;
    for (int m = this_lane(); m < inverse.tiles; m += 32) {
      if (counts[m] > most) pieces += pieces_of(counts[m], most);
    }
    if (warp_sum(pieces) <= inverse.slots) return most;
  }
}

// `counts` of hits become the hits before a tile.
__device__ void make_items(int32_t* counts, const KeyRow& keys, const IntervalInverse& inverse,
                           int64_t number) {
  const int most = choose_piece(counts, inverse);
  IntervalItem* items = inverse.items + number * (inverse.tiles + inverse.slots);
  int hits_before = 0, items_before = 0, slots_before = 0;
  for (int m0 = 0; m0 < inverse.tiles; m0 += 32) {
    const int m = m0 + this_lane(), hits = m < inverse.tiles ? counts[m] : 0;
    const bool wanted = m < inverse.tiles && keys.has(m) && (hits > 0 || !inverse.skips_unseen);
    const int pieces = wanted ? pieces_of(hits, most) : 0, slots = pieces > 1 ? pieces : 0;
    const int hits_end = hits_before + running_sum(hits), items_end = items_before + running_sum(pieces),
              slots_end = slots_before + running_sum(slots);
    const int first = hits_end - hits;
    for (int i = 0; i < pieces; ++i) {
      const int from = static_cast<int>(static_cast<int64_t>(hits) * i / pieces),
                to = static_cast<int>(static_cast<int64_t>(hits) * (i + 1) / pieces);
      items[items_end - pieces + i] = {m, first + from, to - from, i, pieces, slots_end - slots};
    }
    if (m < inverse.tiles) {
      inverse.hit_count[number * inverse.tiles + m] = hits;
      counts[m] = first;
    }
    hits_before = __shfl_sync(kAllLanes, hits_end, 31);
    items_before = __shfl_sync(kAllLanes, items_end, 31);
    slots_before = __shfl_sync(kAllLanes, slots_end, 31);
  }
  if (this_lane() == 0) inverse.item_count[number] = items_before;
}

// Grid: (heads of the tables, rows).
__global__ void __launch_bounds__(kThreads)
    interval_inverse_kernel(IntervalData d, InverseGroups groups, IntervalInverse inverse) {
  auto* counts = dynamic_shared<int32_t>();  // [tiles]
  const int head = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  const int64_t number = static_cast<int64_t>(row) * inverse.heads + head;
  const KeyRow keys(d, groups, inverse, row);
  uint32_t* spans = inverse.spans + number * inverse.entries;
  IntervalHit* hits = inverse.hits + number * inverse.most_hits;
  for (int m = this_thread(); m < inverse.tiles; m += kThreads) counts[m] = 0;
  __syncthreads();
  for (int64_t n = this_thread(); n < inverse.entries; n += kThreads) {
    const Entry e(groups, row, head, n);
    uint32_t span = kNoTile;
    if (groups.group[e.group].slot[e.slot].side == inverse.side && e.hit.count > 0 &&
        e.hit.end > e.hit.begin) {
      const int first = keys.tile_of(e.hit.begin), last = keys.tile_of(e.hit.end - 1);
      span = static_cast<uint32_t>(first) << 16 | static_cast<uint32_t>(last);
      for (int m = first; m <= last; ++m) atomicAdd(&counts[m], 1);
    }
    spans[n] = span;
  }
  __syncthreads();
  if (this_warp() == 0) make_items(counts, keys, inverse, number);
  __syncthreads();
  for (int m = this_warp(); m < inverse.tiles; m += kWarps) {
    int at = counts[m], left = inverse.hit_count[number * inverse.tiles + m];
    for (int64_t n0 = 0; left > 0 && n0 < inverse.entries; n0 += 32) {
      const int64_t n = n0 + this_lane();
      const uint32_t span = n < inverse.entries ? spans[n] : kNoTile;
      const bool touches = static_cast<int>(span >> 16) <= m && m <= static_cast<int>(span & 0xffffu);
      const uint32_t all = __ballot_sync(kAllLanes, touches);
      const int mine = at + __popc(all & ((1u << this_lane()) - 1));
      if (touches && mine < inverse.most_hits) hits[mine] = Entry(groups, row, head, n).hit;
      at += __popc(all);
      left -= __popc(all);
    }
  }
}

}  // namespace

void start_interval_inverse(const IntervalBackwardArguments& a, const IntervalInverse& inverse,
                            cudaStream_t stream) {
  InverseGroups groups;
  groups.count = a.groups;
  for (int g = 0; g < kIntervalMostGroups; ++g) groups.group[g] = a.group[g];
  const dim3 grid(static_cast<unsigned>(inverse.heads), static_cast<unsigned>(a.data.rows));
  start_kernel(interval_inverse_kernel,
               {grid, kThreads, stream, static_cast<size_t>(inverse.tiles) * sizeof(int32_t)}, a.data, groups,
               inverse);
}

}  // namespace lra
