// CUDA side of interval_attention.h, backward, by keys: a block of threads has a tile of keys and values and
// walks over the tiles of queries that see some of them (interval_attention_inverse.cu).
//
//   dv_j = Σ_i keep_ij A_ij dO_i,   dk_j = scale · Σ_i dS_ij q_i,   dS_ij = A_ij (keep_ij dO_i·v_j − δ_i)
//
// Products are those of the transposed matrices, so that what one gives is the left operand of the next: rows
// are keys, columns are queries.
#include "kernels/interval_attention/interval_attention_steps.cuh"
#include "kernels/interval_attention/interval_tiles.cuh"

namespace lra {
namespace {

// What is known of the queries of a tile.
struct QueryRows {
  TwoRows row[kIntervalTile];        // q and dO
  int2 band[kIntervalTile];          // low_i, high_i
  float2 statistics[kIntervalTile];  // lse · log₂ e, δ; 0 for none, which then gives nothing
};

constexpr int kHits = 8;  // that are in shared memory at a time, a power of 2

template <int kWidth>
struct alignas(16) KeyShared {
  Bf16 k[TileShape<kWidth>::kElements], v[TileShape<kWidth>::kElements];
  Bf16 q[2][TileShape<kWidth>::kElements], d_out[2][TileShape<kWidth>::kElements];
  QueryRows queries[3];
  IntervalHit hits[kHits];
  int32_t position[kIntervalTile];  // of the keys
  WeightDraw draw;                  // here and not in registers
  int32_t side_row[kIntervalThreads];
  uint32_t side_rows[kIntervalThreads / 32];
};

struct KeyArguments {
  IntervalData d;
  IntervalInverse inverse;
  const int32_t* lead_first;  // [B, lead_blocks], or null: no lead
  int32_t lead_blocks;
  int32_t round;
  const Bf16* d_out;
  const float *lse, *delta;
  Bf16* d_keys;  // gradient of the first row of keys, of head 0; rows `stride` apart, values after keys
  int64_t stride;
  float* sums;             // where gradients go in float instead, [B·pitch, 2, H, P]
  const float* side_sums;  // [B·pitch, 2, H, P], gradients of keys that are positions again: added
  IntervalInverse side;
  float* pieces;
  int32_t* arrived;
};

// The keys of a tile: `count` from place `first` on.
struct KeyTileOf {
  int row, virtual_head, head, row_start, first, count;
  IntervalItem item;

  // Grid: (heads, items, rows). count 0: nothing to do.
  __device__ explicit KeyTileOf(const KeyArguments& a)
      : row(static_cast<int>(blockIdx.z)),
        virtual_head(a.round * a.d.heads + static_cast<int>(blockIdx.x)),
        head(static_cast<int>(blockIdx.x)),
        row_start(a.d.offsets[row]),
        first(0),
        count(0) {
    const int64_t list = list_number(a.inverse);
    const auto n = static_cast<int>(blockIdx.y);
    if (n >= a.inverse.item_count[list]) return;
    item = a.inverse.items[list * (a.inverse.tiles + a.inverse.slots) + n];
    const int start = a.inverse.side ? static_cast<int>(row * a.d.side_pitch) : row_start,
              length = a.inverse.side ? static_cast<int>(a.d.side_pitch) : a.d.lengths[row];
    const int lead = a.lead_first ? (a.lead_first[row * a.lead_blocks] - start) % a.inverse.width : 0;
    int from = lead + (item.tile - 1) * a.inverse.width, to = from + a.inverse.width;
    from = from > 0 ? from : 0;
    to = to < length ? to : length;
    first = start + from;
    count = to - from;
  }
  __device__ int64_t list_number(const IntervalInverse& inverse) const {
    return static_cast<int64_t>(row) * inverse.heads + (inverse.heads == 1 ? 0 : head);
  }
};

template <int kWidth, bool kDrops>
class QueryWalk {
 public:
  __device__ QueryWalk(const KeyArguments& a, const KeyTileOf& tile, KeyShared<kWidth>& shared)
      : a_(a),
        tile_(tile),
        s_(shared),
        hits_(a.inverse.hits + tile.list_number(a.inverse) * a.inverse.most_hits + tile.item.first_hit) {}

  // Begins to copy keys and values.
  __device__ void copy_keys() const {
    const IntervalData& d = a_.d;
    if (this_thread() < kIntervalTile) {
      const int place = tile_.first + this_thread();
      int position = -1;
      if (this_thread() < tile_.count) {
        position = a_.inverse.side ? (d.side ? place : d.side_at[place])
                   : d.order       ? d.order[tile_.virtual_head * d.positions + place]
                                   : place;
      }
      s_.position[this_thread()] = position;
    }
    __syncthreads();
    const bool own_side = a_.inverse.side && d.side;
    const int64_t values = int64_t{d.heads} * d.width, head = int64_t{tile_.head} * d.width;
    const Bf16* base = own_side ? static_cast<const Bf16*>(d.side) : static_cast<const Bf16*>(d.qkv) + values;
    const int64_t stride = (own_side ? 2 : 3) * values;
    copy_tiles<kWidth>(s_.k, s_.v, d.width, base, [&](int n) -> TwoRows {
      if (s_.position[n] < 0) return {nullptr, nullptr};
      const Bf16* row = base + s_.position[n] * stride + head;
      return {row, row + values};
    });
  }

  // begin(): keys and values are there; then work(q, d_out, queries, hit) for each tile of queries. While one
  // is worked on, the next is on its way, what is known of the one after that is put into shared memory, that
  // of the one after that is being looked up, and its successor's hit is on its way.
  template <class Begin, class Work>
  __device__ void run(const Begin& begin, const Work& work) {
    const int hits = tile_.item.hits;
    for (int n = 0; n < 4; ++n) copy_hit(n);
    copy_async_commit();
    copy_async_wait();
    __syncthreads();
    put(s_.queries[0], find(0));
    put(s_.queries[1], find(1));
    Ahead ahead = find(2);
    __syncthreads();
    if (hits > 0) copy(0, s_.queries[0]);
    copy_async_commit();
    copy_async_wait();
    __syncthreads();
    begin();
    int now = 0;  // of three
    for (int t = 0; t < hits; ++t) {
      const int stage = t % 2, next = now == 2 ? 0 : now + 1, after = next == 2 ? 0 : next + 1;
      copy_async_wait();
      __syncthreads();
      if (t + 1 < hits) copy(1 - stage, s_.queries[next]);
      copy_hit(t + 4);
      copy_async_commit();
      put(s_.queries[after], ahead);
      ahead = find(t + 3);
      work(s_.q[stage], s_.d_out[stage], s_.queries[now], s_.hits[t % kHits]);
      now = next;
    }
  }

 private:
  struct Ahead {
    int position;
    int2 band;
    float2 statistics;
  };

  __device__ void copy_hit(int n) const {
    constexpr int kThreads = sizeof(IntervalHit) / 16;
    if (this_thread() >= kThreads || n >= tile_.item.hits) return;
    copy_async<16>(reinterpret_cast<int32_t*>(&s_.hits[n % kHits]) + this_thread() * 4,
                   reinterpret_cast<const int32_t*>(hits_ + n) + this_thread() * 4);
  }
  __device__ Ahead find(int n) const {
    Ahead found{-1, make_int2(0, 0), make_float2(0, 0)};
    if (n >= tile_.item.hits) return found;
    const IntervalHit& hit = s_.hits[n % kHits];
    if (this_thread() >= hit.count) return found;  // at most the first 64
    const IntervalData& d = a_.d;
    const int i = hit.first + this_thread();
    const int64_t in_order = tile_.virtual_head * d.positions + i;
    found.position = d.order ? d.order[in_order] : i;
    found.band = make_int2(i + hit.low, i + hit.high);
    if (d.least) {
      const int least = d.least[in_order];
      found.band.x = least > found.band.x ? least : found.band.x;
    }
    const int64_t at = int64_t{found.position} * d.rounds * d.heads + tile_.virtual_head;
    found.statistics = make_float2(a_.lse[at], a_.delta[at]);
    return found;
  }
  __device__ void put(QueryRows& rows, const Ahead& ahead) const {
    const int n = this_thread();
    if (n >= kIntervalTile) return;
    rows.row[n] = rows_of(ahead.position);
    rows.band[n] = ahead.band;
    rows.statistics[n] = make_float2(ahead.statistics.x * kLog2E, ahead.statistics.y);
  }
  __device__ TwoRows rows_of(int64_t position) const {
    const IntervalData& d = a_.d;
    if (position < 0) return {nullptr, nullptr};
    return {static_cast<const Bf16*>(d.qkv) + (position * 3 * d.heads + tile_.head) * d.width,
            a_.d_out + (position * d.rounds * d.heads + tile_.virtual_head) * d.width};
  }
  __device__ void copy(int stage, const QueryRows& rows) const {
    copy_tiles<kWidth>(s_.q[stage], s_.d_out[stage], a_.d.width, a_.d_out,
                       [&](int n) { return rows.row[n]; });
  }

  const KeyArguments& a_;
  const KeyTileOf& tile_;
  KeyShared<kWidth>& s_;
  const IntervalHit* hits_;
};

// Whether every query of a hit sees every key of the tile.
__device__ inline bool is_plain(const IntervalData& d, const KeyTileOf& tile, const IntervalHit& hit) {
  const int last = tile.first + tile.count - 1;
  if (d.self_penalty != 0 || tile.first < hit.begin || last >= hit.end) return false;
  return !hit.banded ||
         (!d.least && tile.first >= hit.first + hit.count - 1 + hit.low && last <= hit.first + hit.high);
}

// −∞ for what is not seen: rows are the lane's two keys, columns queries `first` ….
template <int kColumns>
__device__ inline void mask_keys(float (&s)[kColumns][4], const IntervalData& d, const KeyTileOf& tile,
                                 bool side, const QueryRows& queries, const IntervalHit& hit, int first) {
  const float penalty = side ? 0.0f : d.self_penalty / d.scale;
  int place[2], from[2], to[2];  // as in `Key` of interval_keys.cuh
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    place[r] = tile.first + this_warp() * 16 + this_lane() / 4 + 8 * r;
    const bool inside = hit.begin <= place[r] && place[r] < hit.end;
    from[r] = !inside ? INT_MIN : hit.banded ? place[r] : INT_MAX;
    to[r] = !inside ? INT_MAX : hit.banded ? place[r] : INT_MIN;
  }
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int i = first + n * 8 + this_lane() % 4 * 2 + e;
      const int2 band = queries.band[i];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float& score = s[n][2 * r + e];
        if (penalty != 0 && place[r] == hit.first + i) score -= penalty;
        if (band.x > from[r] || to[r] > band.y) score = -INFINITY;
      }
    }
  }
}

// Bit 4·n + 2·r + e: whether the weight at [n][2·r + e] is kept. The eight lanes of a column of four octets
// of queries draw for one query each, over the 16 keys of the warp: two octets of columns, or three where
// keys and columns do not begin an octet together.
__device__ inline uint32_t draw_keys(const WeightDraw& draw, const DropoutKeys& keys, const KeyTileOf& tile,
                                     const IntervalHit& hit, int first) {
  const int lane = this_lane(), mine = lane / 4;
  const int column = hit.shift + tile.first + this_warp() * 16;  // negative where no key is inside
  const int octet = column >> 3, skip = column & 7;
  const int i = first + mine / 2 * 8 + lane % 4 * 2 + mine % 2;
  const int place = hit.first + i - tile.row_start;
  uint32_t drawn = draw.octet(keys, place, octet) | draw.octet(keys, place, octet + 1) << 8;
  if (skip != 0) drawn |= draw.octet(keys, place, octet + 2) << 16;
  drawn >>= skip;
  uint32_t kept = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint32_t theirs = __shfl_sync(kAllLanes, drawn, (2 * n + e) * 4 + lane % 4) >> mine;
      kept |= (theirs & 1u) << (4 * n + e) | ((theirs >> 8) & 1u) << (4 * n + 2 + e);
    }
  }
  return kept;
}

// Adds the gradients of side keys that are positions of this tile.
template <int kWidth>
__device__ inline void add_side(const KeyArguments& a, const KeyTileOf& tile, KeyShared<kWidth>& shared,
                                float (&d_k)[kWidth / 8][4], float (&d_v)[kWidth / 8][4]) {
  const IntervalData& d = a.d;
  const int64_t values = int64_t{d.heads} * d.width;
  const int32_t* hits = a.side.hit_count + tile.list_number(a.side) * a.side.tiles;
  const int mine = this_warp() * 16 + this_lane() / 4;
  for (int n0 = 0; n0 < static_cast<int>(d.side_pitch); n0 += kIntervalThreads) {
    const int n = n0 + this_thread();
    int row = -1;
    // Tile m of the side keys begins with key (m − 1)·width.
    if (n < static_cast<int>(d.side_pitch) && hits[n / a.side.width + 1] > 0) {
      row = d.side_at[tile.row * d.side_pitch + n] - tile.first;
    }
    const bool inside = row >= 0 && row < tile.count;
    shared.side_row[this_thread()] = row;
    const uint32_t all = __ballot_sync(kAllLanes, inside);
    if (this_lane() == 0) shared.side_rows[this_warp()] = all;
    __syncthreads();
    for (int w = 0; w < kIntervalThreads / 32; ++w) {
      for (uint32_t rows = shared.side_rows[w]; rows != 0; rows &= rows - 1) {
        const int from = w * 32 + __ffs(static_cast<int>(rows)) - 1, r = shared.side_row[from] - mine;
        if (r != 0 && r != 8) continue;
        const float* sums =
            a.side_sums + ((tile.row * d.side_pitch + n0 + from) * 2 * d.heads + tile.head) * d.width;
#pragma unroll
        for (int c = 0; c < kWidth / 8; ++c) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = c * 8 + this_lane() % 4 * 2 + e;
            const float k = column < d.width ? sums[column] : 0,
                        v = column < d.width ? sums[values + column] : 0;
            d_k[c][e] += r == 0 ? k : 0;
            d_k[c][2 + e] += r == 8 ? k : 0;
            d_v[c][e] += r == 0 ? v : 0;
            d_v[c][2 + e] += r == 8 ? v : 0;
          }
        }
      }
    }
    __syncthreads();
  }
}

template <int kWidth>
__device__ inline void store_sums(const KeyArguments& a, const KeyTileOf& tile,
                                  const float (&sums)[kWidth / 8][4], int part) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = this_warp() * 16 + this_lane() / 4 + 8 * r;
    if (row >= tile.count) continue;
    float* to = a.sums + ((int64_t{tile.first + row} * 2 + part) * a.d.heads + tile.head) * a.d.width;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const int column = n * 8 + this_lane() % 4 * 2;
      if (column >= a.d.width) continue;
      *reinterpret_cast<float2*>(to + column) = make_float2(sums[n][2 * r], sums[n][2 * r + 1]);
    }
  }
}

template <int kWidth>
constexpr int kKeyBlocks = kWidth <= 32   ? 3
                           : kWidth <= 64 ? 2
                                          : 1;  // on a multiprocessor

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(kIntervalThreads, kKeyBlocks<kWidth>)
    interval_key_kernel(KeyArguments a, DropoutKeys keys) {
  constexpr int kColumns = 4;           // octets of queries at a time: what registers hold
  constexpr bool kHeld = kWidth <= 64;  // whether registers hold keys and values, too
  const KeyTileOf tile(a);
  if (tile.count <= 0) return;
  const IntervalData& d = a.d;
  auto& shared = *dynamic_shared<KeyShared<kWidth>>();
  QueryWalk<kWidth, kDrops> walk(a, tile, shared);
  const bool busy = this_warp() * 16 < tile.count;
  const float scale = d.scale * kLog2E;
  if (kDrops && this_thread() == 0) shared.draw = WeightDraw(d, tile.row_start, tile.head);
  float d_k[kWidth / 8][4] = {}, d_v[kWidth / 8][4] = {};
  uint32_t k[kWidth / 16][4], v[kWidth / 16][4];
  walk.copy_keys();
  walk.run(
      [&] {
        if constexpr (kHeld) {
          load_left<kWidth>(k, shared.k);
          load_left<kWidth>(v, shared.v);
        }
      },
      [&](const Bf16* q, const Bf16* d_out, const QueryRows& queries, const IntervalHit& hit) {
        if (!busy) return;
        const bool plain = is_plain(d, tile, hit);
#pragma unroll 1
        for (int first = 0; first < hit.count; first += 8 * kColumns) {
          float s[kColumns][4] = {}, g[kColumns][4] = {};
          if constexpr (!kHeld) load_left<kWidth>(k, shared.k);
          multiply_rows<kWidth>(s, k, q, first);
          if constexpr (!kHeld) load_left<kWidth>(v, shared.v);
          multiply_rows<kWidth>(g, v, d_out, first);
          if (!plain) mask_keys(s, d, tile, a.inverse.side != 0, queries, hit, first);
          uint32_t kept = 0;
          if constexpr (kDrops) kept = draw_keys(shared.draw, keys, tile, hit, first);
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const float2 statistics = queries.statistics[first + n * 8 + this_lane() % 4 * 2 + e];
#pragma unroll
              for (int r = 0; r < 2; ++r) {
                const int i = 2 * r + e;
                float weight = fast_exp2(fmaf(s[n][i], scale, -statistics.x)), gradient = g[n][i];
                bool keep = true;
                if constexpr (kDrops) {
                  keep = (kept >> (4 * n + i)) & 1u;
                  gradient = keep ? gradient * d.draw.rate.scale : 0.0f;
                }
                g[n][i] = weight * (gradient - statistics.y);
                s[n][i] = keep ? weight : 0.0f;
              }
            }
          }
          uint32_t weights[kColumns / 2][4];
          as_left(weights, s);
          multiply_columns<kWidth>(d_v, weights, d_out, first);
          as_left(weights, g);
          multiply_columns<kWidth>(d_k, weights, q, first);
        }
      });
  if (tile.item.pieces > 1) {
    constexpr int64_t kFloats = kIntervalThreads * (kWidth / 2);
    const int64_t number =
        (static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x) * a.inverse.slots + tile.item.slot;
    float* first = a.pieces + number * 2 * kFloats + this_thread();
    leave_sums(d_k, first + tile.item.piece * 2 * kFloats);
    leave_sums(d_v, first + (tile.item.piece * 2 + 1) * kFloats);
    if (!last_to_arrive(a.arrived + number, tile.item.pieces)) return;
    clear_sums(d_k);
    clear_sums(d_v);
    for (int i = 0; i < tile.item.pieces; ++i) {
      join_sums(d_k, first + i * 2 * kFloats);
      join_sums(d_v, first + (i * 2 + 1) * kFloats);
    }
  }
#pragma unroll
  for (int n = 0; n < kWidth / 8 * 4; ++n) {
    d_k[n / 4][n % 4] *= d.scale;
    if (kDrops) d_v[n / 4][n % 4] *= d.draw.rate.scale;
  }
  if (a.sums) {
    store_sums<kWidth>(a, tile, d_k, 0);
    store_sums<kWidth>(a, tile, d_v, 1);
    return;
  }
  if (a.side_sums) add_side(a, tile, shared, d_k, d_v);
  const auto target = [&](int row, int part) {
    return row < tile.count
               ? a.d_keys + shared.position[row] * a.stride + (int64_t{part} * d.heads + tile.head) * d.width
               : nullptr;
  };
  __syncthreads();  // others may still read keys and values
  const float one[2] = {1, 1};
  store_rows<kWidth>(shared.k, d_k, one, d.width, a.round > 0, [&](int row) { return target(row, 0); });
  store_rows<kWidth>(shared.v, d_v, one, d.width, a.round > 0, [&](int row) { return target(row, 1); });
}

void start_keys(const IntervalBackwardArguments& a, bool side, int round, cudaStream_t stream) {
  const IntervalInverse& inverse = side ? a.side : a.own;
  const int64_t part = int64_t{a.data.heads} * a.data.width;
  KeyArguments k{};
  k.d = a.data;
  k.inverse = inverse;
  if (inverse.lead_group >= 0) {
    k.lead_first = a.group[inverse.lead_group].first;
    k.lead_blocks = a.group[inverse.lead_group].blocks;
  }
  k.round = round;
  k.d_out = static_cast<const Bf16*>(a.d_out);
  k.lse = a.lse;
  k.delta = a.delta;
  k.d_keys = side ? static_cast<Bf16*>(a.d_side) : static_cast<Bf16*>(a.d_qkv) + part;
  k.stride = (side ? 2 : 3) * part;
  k.sums = side ? a.side_sums : nullptr;
  k.side_sums = side ? nullptr : a.side_sums;
  k.side = a.side;
  k.pieces = a.pieces;
  k.arrived = a.arrived;
  const DropoutKeys keys = dropout_keys(a.data.draw);
  const dim3 grid(static_cast<unsigned>(a.data.heads), static_cast<unsigned>(inverse.tiles + inverse.slots),
                  static_cast<unsigned>(a.data.rows));
  choose_interval_kernel(a.data.width, a.data.draw.rate.threshold > 0, [&](auto width, auto drops) {
    constexpr int kWidth = decltype(width)::value;
    start_kernel(interval_key_kernel<kWidth, decltype(drops)::value>,
                 {grid, kIntervalThreads, stream, sizeof(KeyShared<kWidth>)}, k, keys);
  });
}

int backward_launch(const IntervalBackwardArguments& a, CudaStream on) {
  const auto stream = static_cast<cudaStream_t>(on);
  start_interval_delta(a, stream);
  if (a.data.rows == 0) return cudaGetLastError();
  start_interval_inverse(a, a.own, stream);
  if (a.side.tiles > 0) start_interval_inverse(a, a.side, stream);
  for (int round = 0; round < a.data.rounds; ++round) {
    start_interval_query(a, round, stream);
    if (a.side.tiles > 0) start_keys(a, true, round, stream);
    start_keys(a, false, round, stream);
  }
  return cudaGetLastError();
}

const bool registered = (interval_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
