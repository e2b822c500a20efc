// Backward pass of attention_kernels.h, the weights A computed again from lse:
//
//   δ_i = Σ out_i ∘ dO_i,   dA_ij = keep_ij dO_i·v_j / (1−p),   dS_ij = A_ij (dA_ij − δ_i)
//   dq_i = scale Σ_j dS_ij k_j,   dk_j = scale Σ_i dS_ij q_i,   dv_j = Σ_i keep_ij A_ij dO_i / (1−p)
//
// A block of threads has 128 keys of a row and head, and goes over the queries 64 at a time. dk and dv stay
// in its registers; what a tile adds to dq it adds in global memory, in floats, in whatever order blocks
// come. Where two runs shall give the same bits, dq comes from a kernel of its own instead, by queries, which
// computes scores and weights once more.
#include "kernels/attention/attention_tiles.cuh"

namespace lra {
namespace {

using namespace attention_tiles;

// Pairs of dS in bf16, from weights and dA without its factors: what is dropped has −A δ.
template <bool kDrops>
__device__ inline uint32_t score_gradients(const float (&a)[2], const float (&d_a)[2], float scale,
                                           const float (&delta)[2], uint32_t kept) {
  const uint32_t all =
      bf16_pair(a[0] * fmaf(d_a[0], scale, -delta[0]), a[1] * fmaf(d_a[1], scale, -delta[1]));
  if constexpr (!kDrops) return all;
  return (all & kept) | (bf16_pair(-a[0] * delta[0], -a[1] * delta[1]) & ~kept);
}

// ---- by queries ----

constexpr int kStageRows = 256, kStages = 3;

struct QueryRing {
  Stage<kStageRows> stages[kStages];  // keys and values
  WeightDraw draw;
};

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(kThreads, 1)
    attention_query_kernel(AttentionData d, const Bf16* out, const Bf16* d_out, const float* lse,
                           float* delta, Bf16* d_qkv, DropoutKeys dropout) {
  const Span span = find_span(d, static_cast<int>(blockIdx.x));
  if (span.first >= span.length) return;
  const int h = static_cast<int>(blockIdx.y), query = span.first + this_row();
  const int end = d.causal ? min(span.length, span.first + kSpan) : span.length;  // of the keys
  auto& ring = *dynamic_shared<QueryRing, 1024>();
  const TileWalk<kWidth, kStageRows, kStages, NothingElse> keys{
      ring.stages, head_rows(d, d.qkv, 3, 1, span, h), head_rows(d, d.qkv, 3, 2, span, h), span.length, end,
      {}};
  keys.begin_stage(0);
  if (kDrops && threadIdx.x == 0) ring.draw = WeightDraw(d, dropout, span, h);
  Operand<kWidth> q, d_o;
  Weights d_s;
  load_operand(q, head_rows(d, d.qkv, 3, 0, span, h), span);
  load_operand(d_o, head_rows(d, d_out, 1, 0, span, h), span);
  float origin[2] = {0, 0}, mean[2] = {0, 0};  // lse and δ of the lane's queries
  {
    Operand<kWidth> o;
    load_operand(o, head_rows(d, out, 1, 0, span, h), span);
#pragma unroll
    for (int i = 0; i < kWidth / 4; ++i) {
      mean[i % 2] += low_half(o[i / 4][i % 4]) * low_half(d_o[i / 4][i % 4]) +
                     high_half(o[i / 4][i % 4]) * high_half(d_o[i / 4][i % 4]);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    mean[r] = quad_sum(mean[r]);
    if (query + 8 * r >= span.length) continue;
    const int64_t at = h * d.positions + span.start + query + 8 * r;
    origin[r] = lse[at];
    if (this_lane() % 4 == 0) delta[at] = mean[r];
  }

  Scores s = {}, d_a = {};
  Sums<kWidth> d_q = {};
  const float scale = d.scale * kLog2E, kept_scale = kDrops ? d.draw.rate.scale : 1;
  const auto begin_scores = [&](int tile) {
    keys.enter(tile);
    group_begin(s, d_a, q, d_o);
    multiply_rows_async(s, q, keys.first(tile));
    multiply_rows_async(d_a, d_o, keys.second(tile));
    group_commit();
  };
#pragma unroll 1
  for (int tile = 0; tile < keys.tiles(); ++tile) {
    const int key = tile * kTile;
    begin_scores(tile);
    KeptOfRows kept;
    if constexpr (kDrops) kept.draw<4>(ring.draw, dropout, query, key);
    group_wait<0>(s, d_a, d_q);
    hide_keys(s, span.first, query, key, end, d.causal);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float a[2] = {weight(s[n][2 * r], scale, origin[r]), weight(s[n][2 * r + 1], scale, origin[r])};
        d_s[n / 2][n % 2 * 2 + r] = score_gradients<kDrops>(a, {d_a[n][2 * r], d_a[n][2 * r + 1]}, kept_scale,
                                                            {mean[r], mean[r]}, kDrops ? kept.mask(n, r) : 0);
      }
    }
    group_begin(d_q, d_s);
    multiply_columns_async(d_q, d_s, keys.first(tile));
    group_commit();
  }
  group_wait<0>(d_q);
  store_sums(d_q, {d.scale, d.scale}, head_rows(d, d_qkv, 3, 0, span, h), span);
}

// ---- by keys ----

constexpr int kBuffers = 4;

struct KeyRing {
  Bf16 keys[kSpan * kTileWidth];      // the block's own
  Bf16 d_s[2][kSpan * kTileWidth];    // of two tiles, a row for each key
  Stage<kTile> stages[kBuffers];      // queries and dO
  float2 lse_delta[kBuffers][kTile];  // of the queries
  WeightDraw draw;
};

// Sums for dq in floats, tile by tile of 64 queries of a row, and of those head by head. In each tile they
// lie as warps have them: the four sums of a lane's octet of columns together.
template <int kWidth>
struct QuerySums {
  static constexpr int kColumns = kWidth / 16;  // octets of a warpgroup
  float* first;                                 // the lane's of the row's first tile
  int64_t pitch;                                // from a tile to the next

  __device__ QuerySums(float* sums, const AttentionData& d, const Span& span, int h)
      : first(sums + (int64_t{span.start / kTile + span.row} * d.heads + h) * (kTile * kWidth) +
              (static_cast<int>(threadIdx.x) / 32 * kColumns * 32 + this_lane()) * 4),
        pitch(int64_t{d.heads} * (kTile * kWidth)) {}

  __device__ float* at(int tile) const { return first + tile * pitch; }
  __device__ void add(int tile, const float (&c)[kColumns][4]) const {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) add_at_once(at(tile) + n * 128, c[n]);
  }
};

// A row of the tile for each key.
__device__ inline void store_columns(Bf16 (&tile)[kSpan * kTileWidth], const Weights& d_s) {
  const int thread = thread_number_here(), row = thread / 32 * 16 + thread % 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) store_tiles(tile + swizzled(row, i * 16 + thread % 32 / 16 * 8), d_s[i]);
}

template <int kWidth, bool kDrops, bool kWhole>
__global__ void __launch_bounds__(kThreads, 1)
    attention_key_kernel(AttentionData d, const Bf16* d_out, const float* lse, const float* delta,
                         Bf16* d_qkv, float* query_sums, DropoutKeys dropout) {
  const Span span = find_span(d, static_cast<int>(blockIdx.x));
  if (span.first >= span.length) return;
  const int h = static_cast<int>(blockIdx.y), key = span.first + this_row();
  const int first = d.causal ? span.first / kTile : 0;  // of the tiles of queries
  auto& ring = *dynamic_shared<KeyRing, 1024>();
  // Beyond the row's end dO is 0, and weights count for nothing.
  const int thread = static_cast<int>(threadIdx.x);
  const float* from = (thread < kTile ? lse : delta) + h * d.positions + span.start;
  const auto copy_lse_delta = [&](int stage) {
    const int query = stage * kTile + thread % kTile;
    float2& pair = ring.lse_delta[stage % kBuffers][thread % kTile];
    if (thread < 2 * kTile) {
      copy_async_or_zero<4>(thread < kTile ? &pair.x : &pair.y, from + query, query < span.length);
    }
  };
  const TileWalk<kWidth, kTile, kBuffers, decltype(copy_lse_delta)> queries{
      ring.stages,
      head_rows(d, d.qkv, 3, 0, span, h),
      head_rows(d, d_out, 1, 0, span, h),
      span.length,
      span.length,
      copy_lse_delta};
  const HeadRows own_keys = head_rows(d, d.qkv, 3, 1, span, h);
  if constexpr (kWhole) RowCopy<kWidth, kSpan>().begin(ring.keys, own_keys, span.first, span.length);
  queries.begin_stage(first);
  if (kDrops && threadIdx.x == 0) ring.draw = WeightDraw(d, dropout, span, h);
  Operand<kWidth> k, v;
  Weights weights, d_s;
  load_operand(k, own_keys, span);
  load_operand(v, head_rows(d, d.qkv, 3, 2, span, h), span);
  Scores s = {}, d_a = {};
  Sums<kWidth> d_k = {}, d_v = {};
  float d_q[QuerySums<kWidth>::kColumns][4] = {};  // of a tile, the warpgroup's half of the columns
  const float scale = d.scale * kLog2E, kept_scale = kDrops ? d.draw.rate.scale : 1;
  const GroupTile own_half = group_tile(ring.keys) + group_number() * kWidth,
                  stored_d_s = group_tile(ring.d_s);
  const QuerySums<kWidth> d_queries(query_sums, d, span, h);
  const auto begin_tile = [&](int tile) {
    queries.enter(tile);
    group_begin(s, d_a, k, v);
    multiply_rows_async(s, k, queries.first(tile));
    multiply_rows_async(d_a, v, queries.second(tile));
    group_commit();
  };
  const auto begin_queries = [&](int tile) {
    group_begin(d_q);
    multiply_transposed_async<kSpan>(d_q, stored_d_s + tile % 2 * kSpan * kTileWidth * 2, own_half);
    group_commit();
  };
  KeptOfColumns kept = {};
  const auto draw = [&](int tile) {
    if constexpr (kDrops) kept.draw<4>(ring.draw, dropout, tile * kTile, key - this_lane() / 4);
  };
  begin_tile(first);
  draw(first);
  group_wait<0>(s, d_a);
#pragma unroll 1
  for (int tile = first;;) {
    const int query = tile * kTile, buffer = tile % kBuffers;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      // lse and δ of one of the lane's two queries, then of the other
      const auto of_two =
          *reinterpret_cast<const float4*>(&ring.lse_delta[buffer][n * 8 + this_lane() % 4 * 2]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float a[2] = {weight(s[n][2 * r], scale, of_two.x), weight(s[n][2 * r + 1], scale, of_two.z)};
        const uint32_t mask = kDrops ? kept.mask(n, r) : ~0u;
        weights[n / 2][n % 2 * 2 + r] = bf16_pair(a[0], a[1]) & mask;
        d_s[n / 2][n % 2 * 2 + r] = score_gradients<kDrops>(a, {d_a[n][2 * r], d_a[n][2 * r + 1]}, kept_scale,
                                                            {of_two.y, of_two.w}, mask);
      }
    }
    // Takes out keys beyond the row's end, whose weights may be infinite, and in the causal form those that a
    // query does not see. Here, not among the scores: where threads write to registers of sums while products
    // are on their way, the compiler lets no two products overlap.
    if ((d.causal && query < span.first + kSpan) || span.first + kSpan > span.length) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int own = key + i % 2 * 8, column = query + i / 2 * 8 + this_lane() % 4 * 2;
        // How many queries of the pair do not see the key: 1 is the first, more are both.
        const int blind = own >= span.length ? 2 : d.causal ? own - column : 0;
        const uint32_t mask = blind <= 0 ? ~0u : blind == 1 ? 0xffff0000u : 0;
        weights[i / 4][i % 4] &= mask;
        d_s[i / 4][i % 4] &= mask;
      }
    }
    if constexpr (kWhole) {
      store_columns(ring.d_s[tile % 2], d_s);
      group_wait<0>(d_q);
      if (tile > first) d_queries.add(tile - 1, d_q);
    }
    group_begin(d_v, d_k, weights, d_s);
    multiply_columns_async(d_v, weights, queries.second(tile));
    multiply_columns_async(d_k, d_s, queries.first(tile));
    group_commit();
    if (++tile == queries.tiles()) break;
    begin_tile(tile);
    draw(tile);
    if constexpr (kWhole) begin_queries(tile - 1);
    group_wait<kWhole ? 1 : 0>(s, d_a, d_k, d_v);  // d_q comes while weights are computed
  }
  if constexpr (kWhole) {
    show_to_group();
    __syncthreads();
    begin_queries(queries.tiles() - 1);
  }
  group_wait<0>(d_k, d_v, d_q);
  if constexpr (kWhole) d_queries.add(queries.tiles() - 1, d_q);
  store_sums(d_k, {d.scale, d.scale}, head_rows(d, d_qkv, 3, 1, span, h), span);
  store_sums(d_v, {kept_scale, kept_scale}, head_rows(d, d_qkv, 3, 2, span, h), span);
}

// ---- what goes before and after the kernel by keys ----

// δ: a thread has an octet of a position's head, eight neighbours the head.
__global__ void __launch_bounds__(kThreads)
    attention_mean_kernel(AttentionData d, const Bf16* out, const Bf16* d_out, float* delta) {
  const int64_t number = int64_t{blockIdx.x} * (kThreads / 8) + threadIdx.x / 8, position = number / d.heads;
  const int h = static_cast<int>(number % d.heads), column = this_lane() % 8 * 8;
  float sum = 0;
  if (position < d.positions && column < d.width) {
    const int64_t at = number * d.width + column;
    float a[8], b[8];
    widen(load_octet_constant(out + at), a);
    widen(load_octet_constant(d_out + at), b);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
  }
#pragma unroll
  for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (position < d.positions && column == 0) delta[h * d.positions + position] = sum;
}

// dq out of the sums; a block has what attention_key_kernel's has.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    attention_sum_kernel(AttentionData d, const float* query_sums, Bf16* d_qkv) {
  const Span span = find_span(d, static_cast<int>(blockIdx.x));
  const int h = static_cast<int>(blockIdx.y), half = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (span.first >= span.length) return;
  const HeadRows to = head_rows(d, d_qkv, 3, 0, span, h);
  const QuerySums<kWidth> from(const_cast<float*>(query_sums), d, span, h);
  constexpr int kColumns = QuerySums<kWidth>::kColumns, kTiles = kSpan / kTile;
  float4 sums[kTiles][kColumns];
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const int tile = span.first / kTile + i;
    if (tile * kTile >= span.length) break;
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
      sums[i][n] = __ldg(reinterpret_cast<const float4*>(from.at(tile)) + n * 32);
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const int place = span.first + i * kTile + this_row() % kTile;
    auto* at = reinterpret_cast<uint32_t*>(to.at + place * to.pitch) + half * (kWidth / 4) + this_lane() % 4;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      if (half * (kWidth / 2) + n * 8 >= to.width) continue;
      const float4 sum = sums[i][n];
      if (place < span.length) at[n * 4] = bf16_pair(sum.x * d.scale, sum.y * d.scale);
      if (place + 8 < span.length) at[n * 4 + 4 * to.pitch] = bf16_pair(sum.z * d.scale, sum.w * d.scale);
    }
  }
}

int backward_launch(const AttentionBackwardArguments& a, CudaStream s) {
  const AttentionData& d = a.data;
  if (d.positions == 0) return 0;
  const auto stream = static_cast<cudaStream_t>(s);
  const dim3 grid(most_spans(d), static_cast<unsigned>(d.heads));
  const auto *out = static_cast<const Bf16*>(a.out), *d_out = static_cast<const Bf16*>(a.d_out);
  auto* d_qkv = static_cast<Bf16*>(a.d_qkv);
  const DropoutKeys keys = dropout_keys(d.draw);
  choose_attention_kernel(d, [&](auto width, auto drops) {
    constexpr int kWidth = decltype(width)::value;
    constexpr bool kDrops = decltype(drops)::value;
    if (a.query_sums) {
      const auto means = static_cast<unsigned>((d.positions * d.heads + kThreads / 8 - 1) / (kThreads / 8));
      start_kernel(attention_mean_kernel, {means, kThreads, stream}, d, out, d_out, a.delta);
      start_kernel(attention_key_kernel<kWidth, kDrops, true>, {grid, kThreads, stream, sizeof(KeyRing)}, d,
                   d_out, a.lse, a.delta, d_qkv, a.query_sums, keys);
      start_kernel(attention_sum_kernel<kWidth>, {grid, kThreads, stream}, d, a.query_sums, d_qkv);
    } else {
      start_kernel(attention_query_kernel<kWidth, kDrops>, {grid, kThreads, stream, sizeof(QueryRing)}, d,
                   out, d_out, a.lse, a.delta, d_qkv, keys);
      start_kernel(attention_key_kernel<kWidth, kDrops, false>, {grid, kThreads, stream, sizeof(KeyRing)}, d,
                   d_out, a.lse, a.delta, d_qkv, nullptr, keys);
    }
  });
  return cudaGetLastError();
}

const bool registered = (attention_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
