// Backward pass of attention_kernels.h, the weights A computed again from lse:
//
//   δ_i = Σ out_i ∘ dO_i,   dA_ij = keep_ij dO_i·v_j / (1−p),   dS_ij = A_ij (dA_ij − δ_i)
//   dq_i = scale Σ_j dS_ij k_j,   dk_j = scale Σ_i dS_ij q_i,   dv_j = Σ_i keep_ij A_ij dO_i / (1−p)
//
// One kernel by queries, which writes δ for the other, by keys: no sums are shared between blocks of threads,
// so that two runs give the same bits. Both keep their own rows in shared memory, which leaves registers for
// three warpgroups on a multiprocessor: while one waits for products, the others compute.
#include "kernels/attention/attention_tiles.cuh"

namespace lra {
namespace {

using namespace attention_tiles;

constexpr int kStageRows = 128;

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

using QueryThreads = Team<3>;

struct QueryRing {
  Stage<QueryThreads::kSpan> own;      // queries and dO
  Stage<kStageRows> stages[kBuffers];  // keys and values
  WeightDraw draw;
};

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(QueryThreads::kThreads, 1)
    attention_query_kernel(AttentionData d, const Bf16* out, const Bf16* d_out, const float* lse,
                           float* delta, Bf16* d_qkv, DropoutKeys dropout) {
  const Span span = find_span<QueryThreads::kSpan>(d, static_cast<int>(blockIdx.x));
  if (span.first >= span.length) return;
  const int h = static_cast<int>(blockIdx.y), query = span.first + this_row();
  const int end = d.causal ? min(span.length, span.first + QueryThreads::kSpan) : span.length;  // of the keys
  auto& ring = *dynamic_shared<QueryRing, 1024>();
  const TileWalk<kWidth, QueryThreads::kThreads, kStageRows, NothingElse> keys{
      ring.stages, head_rows(d, d.qkv, 3, 1, span, h), head_rows(d, d.qkv, 3, 2, span, h), span.length, end,
      {}};
  const HeadRows own_q = head_rows(d, d.qkv, 3, 0, span, h), own_d_o = head_rows(d, d_out, 1, 0, span, h);
  copy_stage<kWidth, QueryThreads::kThreads>(ring.own, own_q, own_d_o, span.first, span.length);
  keys.begin_stage(0);
  if (kDrops && threadIdx.x == 0) ring.draw = WeightDraw(d, dropout, span, h);
  float origin[2] = {0, 0}, mean[2] = {0, 0};  // lse and δ of the lane's queries
  {
    Operand<kWidth> o, d_o;
    load_operand(o, head_rows(d, out, 1, 0, span, h), span);
    load_operand(d_o, own_d_o, span);
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

  const GroupTile q = own_tile(ring.own.first), d_o = own_tile(ring.own.second);
  Scores s = {}, d_a = {};
  Weights d_s;
  Sums<kWidth> d_q = {};
  const float scale = d.scale * kLog2E, kept_scale = kDrops ? d.draw.rate.scale : 1;
  const auto begin_scores = [&](int tile) {
    keys.enter(tile);
    group_begin(s, d_a);
    multiply_rows_async<kWidth / 16>(s, q, keys.first(tile));
    multiply_rows_async<kWidth / 16>(d_a, d_o, keys.second(tile));
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

using KeyThreads = Team<3>;

struct KeyRing {
  Stage<KeyThreads::kSpan> own;        // keys and values
  Stage<kStageRows> stages[kBuffers];  // queries and dO
  WeightDraw draw;
  float lse[kBuffers][kStageRows], delta[kBuffers][kStageRows];
};

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(KeyThreads::kThreads, 1)
    attention_key_kernel(AttentionData d, const Bf16* d_out, const float* lse, const float* delta,
                         Bf16* d_qkv, DropoutKeys dropout) {
  const Span span = find_span<KeyThreads::kSpan>(d, static_cast<int>(blockIdx.x));
  if (span.first >= span.length) return;
  const int h = static_cast<int>(blockIdx.y), key = span.first + this_row();
  constexpr int kStageTiles = kStageRows / kTile;
  const int first = d.causal ? span.first / kStageRows * kStageTiles : 0;  // of the tiles of queries
  auto& ring = *dynamic_shared<KeyRing, 1024>();
  // Beyond the row's end dO is 0, and weights count for nothing.
  const auto copy_sums = [&](int stage) {
    for (int i = static_cast<int>(threadIdx.x); i < kStageRows; i += KeyThreads::kThreads) {
      const int query = stage * kStageRows + i, buffer = stage % kBuffers;
      const bool there = query < span.length;
      const int64_t at = h * d.positions + span.start + (there ? query : 0);
      copy_async_or_zero<4>(&ring.lse[buffer][i], lse + at, there);
      copy_async_or_zero<4>(&ring.delta[buffer][i], delta + at, there);
    }
  };
  const TileWalk<kWidth, KeyThreads::kThreads, kStageRows, decltype(copy_sums)> queries{
      ring.stages,
      head_rows(d, d.qkv, 3, 0, span, h),
      head_rows(d, d_out, 1, 0, span, h),
      span.length,
      span.length,
      copy_sums};
  copy_stage<kWidth, KeyThreads::kThreads>(ring.own, head_rows(d, d.qkv, 3, 1, span, h),
                                           head_rows(d, d.qkv, 3, 2, span, h), span.first, span.length);
  queries.begin_stage(first / kStageTiles);
  if (kDrops && threadIdx.x == 0) ring.draw = WeightDraw(d, dropout, span, h);
  const GroupTile k = own_tile(ring.own.first), v = own_tile(ring.own.second);
  Weights weights, d_s;
  Scores s = {}, d_a = {};
  Sums<kWidth> d_k = {}, d_v = {};
  const float scale = d.scale * kLog2E, kept_scale = kDrops ? d.draw.rate.scale : 1;
  const auto begin_scores = [&](int tile) {
    queries.enter(tile);
    group_begin(s, d_a);
    multiply_rows_async<kWidth / 16>(s, k, queries.first(tile));
    multiply_rows_async<kWidth / 16>(d_a, v, queries.second(tile));
    group_commit();
  };
#pragma unroll 1
  for (int tile = first; tile < queries.tiles(); ++tile) {
    const int query = tile * kTile, buffer = tile / kStageTiles % kBuffers;
    begin_scores(tile);
    KeptOfColumns kept;
    if constexpr (kDrops) kept.draw<4>(ring.draw, dropout, query, key - this_lane() / 4);
    group_wait<0>(s, d_a);
    if (d.causal && query < span.first + KeyThreads::kSpan) {
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        if (query + i / 4 * 8 + this_lane() % 4 * 2 + i % 2 < key + i % 4 / 2 * 8)
          s[i / 4][i % 4] = -INFINITY;
      }
    }
    const int in_stage = tile % kStageTiles * kTile + this_lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const auto origin = *reinterpret_cast<const float2*>(&ring.lse[buffer][in_stage + 8 * n]),
                 mean = *reinterpret_cast<const float2*>(&ring.delta[buffer][in_stage + 8 * n]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float a[2] = {weight(s[n][2 * r], scale, origin.x), weight(s[n][2 * r + 1], scale, origin.y)};
        const uint32_t mask = kDrops ? kept.mask(n, r) : ~0u;
        weights[n / 2][n % 2 * 2 + r] = bf16_pair(a[0], a[1]) & mask;
        d_s[n / 2][n % 2 * 2 + r] = score_gradients<kDrops>(a, {d_a[n][2 * r], d_a[n][2 * r + 1]}, kept_scale,
                                                            {mean.x, mean.y}, mask);
      }
    }
    group_begin(d_v, d_k, weights, d_s);
    multiply_columns_async(d_v, weights, queries.second(tile));
    multiply_columns_async(d_k, d_s, queries.first(tile));
    group_commit();
    group_wait<0>(d_k, d_v);
  }
  store_sums(d_k, {d.scale, d.scale}, head_rows(d, d_qkv, 3, 1, span, h), span);
  store_sums(d_v, {kept_scale, kept_scale}, head_rows(d, d_qkv, 3, 2, span, h), span);
}

int backward_launch(const AttentionBackwardArguments& a, CudaStream s) {
  const AttentionData& d = a.data;
  if (d.positions == 0) return 0;
  const auto stream = static_cast<cudaStream_t>(s);
  const auto grid = [&](int span) { return dim3(most_spans(d, span), static_cast<unsigned>(d.heads)); };
  const auto *out = static_cast<const Bf16*>(a.out), *d_out = static_cast<const Bf16*>(a.d_out);
  auto* d_qkv = static_cast<Bf16*>(a.d_qkv);
  const DropoutKeys keys = dropout_keys(d.draw);
  choose_attention_kernel(d, [&](auto width, auto drops) {
    constexpr int kWidth = decltype(width)::value;
    constexpr bool kDrops = decltype(drops)::value;
    start_kernel(attention_query_kernel<kWidth, kDrops>,
                 {grid(QueryThreads::kSpan), QueryThreads::kThreads, stream, sizeof(QueryRing)}, d, out,
                 d_out, a.lse, a.delta, d_qkv, keys);
    start_kernel(attention_key_kernel<kWidth, kDrops>,
                 {grid(KeyThreads::kSpan), KeyThreads::kThreads, stream, sizeof(KeyRing)}, d, d_out, a.lse,
                 a.delta, d_qkv, keys);
  });
  return cudaGetLastError();
}

const bool registered = (attention_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
