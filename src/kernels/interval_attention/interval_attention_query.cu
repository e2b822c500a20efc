// CUDA side of interval_attention.h, backward, by queries:
//
//   δ_i = Σ out_i ∘ dO_i − d_lse_i                          for every position and head, by the first kernel
//   dS_ij = A_ij (keep_ij dO_i·v_j − δ_i),   dq_i = scale · Σ_j dS_ij k_j
//
// The weights A are computed again from lse.
#include "kernels/interval_attention/interval_attention_steps.cuh"
#include "kernels/interval_attention/interval_keys.cuh"

namespace lra {
namespace {

// Row that position t belongs to; −1 for none.
__device__ inline int row_of(const IntervalData& d, int64_t t) {
  int low = 0, high = static_cast<int>(d.rows);  // the row is one of low … high − 1
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (d.offsets[middle] <= t ? low : high) = middle;
  }
  const int64_t place = t - d.offsets[low];
  return place >= 0 && place < d.lengths[low] ? low : -1;
}

// kLanes threads for a position and virtual head. Gradients that no later kernel writes become 0 here: those
// of keys and values outside the rows, and those of what is no query.
template <int kLanes>
__global__ void __launch_bounds__(kIntervalThreads)
    interval_delta_kernel(IntervalData d, const Bf16* out, const Bf16* d_out, const float* lse,
                          const float* d_lse, Bf16* d_qkv, float* delta) {
  const int heads = d.rounds * d.heads;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kIntervalThreads + this_thread()) / kLanes;
  const bool there = at < d.positions * heads;
  const int column = this_thread() % kLanes * kOctet;
  float sum = 0;
  if (there) {
    float mine[kOctet], theirs[kOctet];
    widen(load_octet<true>(out + at * d.width, column, d.width), mine);
    widen(load_octet<true>(d_out + at * d.width, column, d.width), theirs);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += mine[i] * theirs[i];
  }
#pragma unroll
  for (int o = 1; o < kLanes; o *= 2) sum += __shfl_xor_sync(kAllLanes, sum, o);
  if (!there) return;
  if (column == 0) delta[at] = d_lse ? sum - d_lse[at] : sum;
  const int64_t t = at / heads;
  const int virtual_head = static_cast<int>(at - t * heads);
  Bf16* target = d_qkv + (t * 3 * d.heads + virtual_head % d.heads) * d.width;
  const int64_t part = int64_t{d.heads} * d.width;
  const Octet<Bf16> zeros = {};
  if (!is_query(lse[at])) store_octet<true>(target, column, d.width, zeros);
  if (virtual_head < d.heads && row_of(d, t) < 0) {
    store_octet<true>(target + part, column, d.width, zeros);
    store_octet<true>(target + 2 * part, column, d.width, zeros);
  }
}

template <int kWidth>
constexpr int kQueryBlocks = kWidth <= 64 ? 3 : 2;  // on a multiprocessor

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(kIntervalThreads, kQueryBlocks<kWidth>)
    interval_query_kernel(IntervalData d, IntervalGroup group, int round, const Bf16* d_out, const float* lse,
                          const float* delta, Bf16* d_qkv, float* all_pieces, int32_t* arrived,
                          DropoutKeys keys) {
  constexpr int kColumns = 4;  // octets of keys at a time: what registers hold
  const QueryTile q(d, group, round * d.heads);
  if (q.count <= 0) return;
  auto& shared = *dynamic_shared<QueryShared<kWidth>>();
  KeyWalk<kWidth> walk(d, group, q, shared);
  int pieces, from, to;
  if (!walk.take_piece(q.piece(group), pieces, from, to)) return;
  const bool busy = this_warp() * 16 < q.count;
  const float scale = d.scale * kLog2E;
  const QueryPair pair = walk.queries();
  if (kDrops && this_thread() == 0) shared.draw = WeightDraw(d, q.row_start, q.head);
  float d_q[kWidth / 8][4] = {};
  uint32_t left[kWidth / 16][4], left_out[kWidth / 16][4];
  float origin[2] = {0, 0}, mean[2] = {0, 0};  // lse and δ of the lane's queries
  walk.copy_queries(d_out);
  walk.run(
      from, to,
      [&] {
        load_left<kWidth>(left, shared.k[1]);
        load_left<kWidth>(left_out, shared.v[1]);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int row = this_warp() * 16 + this_lane() / 4 + 8 * r;
          if (row >= q.count) continue;
          const int64_t at = int64_t{shared.position[row]} * d.rounds * d.heads + q.virtual_head;
          origin[r] = lse[at] * kLog2E;
          mean[r] = delta[at];
        }
      },
      [&](const Bf16* k, const Bf16* v, const KeyTile& tile) {
        if (!busy) return;
#pragma unroll 1
        for (int octet = 0; octet < kIntervalTile / kOctet; octet += kColumns) {
          float s[kColumns][4] = {}, g[kColumns][4] = {};
          multiply_rows<kWidth>(s, left, k, octet * kOctet);
          multiply_rows<kWidth>(g, left_out, v, octet * kOctet);
          walk.mask(s, tile, pair, octet * kOctet);
          uint32_t kept = 0;
          if constexpr (kDrops) kept = walk.template draw<kColumns>(shared.draw, keys, tile, pair, octet);
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float weight = fast_exp2(fmaf(s[n][i], scale, -origin[i / 2]));
              float gradient = g[n][i];
              if constexpr (kDrops) {
                const bool keep = (kept >> (16 * (i / 2) + 2 * n + i % 2)) & 1u;
                gradient = keep ? gradient * d.draw.rate.scale : 0.0f;
              }
              s[n][i] = weight * (gradient - mean[i / 2]);
            }
          }
          uint32_t d_scores[kColumns / 2][4];
          as_left(d_scores, s);
          multiply_columns<kWidth>(d_q, d_scores, k, octet * kOctet);
        }
      });
  if (pieces > 1) {
    const int64_t number = q.number(group), floats = kIntervalThreads * (kWidth / 2);
    float* first = all_pieces + number * group.pieces * floats + this_thread();
    leave_sums(d_q, first + q.piece(group) * floats);
    if (!last_to_arrive(arrived + number, pieces)) return;
    clear_sums(d_q);
    for (int i = 0; i < pieces; ++i) join_sums(d_q, first + i * floats);
  }
  if (!busy) return;
  // The stage that was not worked on last.
  const float factor[2] = {d.scale, d.scale};
  store_rows<kWidth>(shared.k[(to - from) % 2], d_q, factor, d.width, round > 0, [&](int row) {
    return row < q.count ? d_qkv + (int64_t{shared.position[row]} * 3 * d.heads + q.head) * d.width : nullptr;
  });
}

}  // namespace

void start_interval_delta(const IntervalBackwardArguments& a, cudaStream_t stream) {
  choose_lanes(a.data.width, [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    const int64_t threads = a.data.positions * a.data.rounds * a.data.heads * kLanes;
    const auto blocks = static_cast<unsigned>((threads + kIntervalThreads - 1) / kIntervalThreads);
    if (blocks == 0) return;
    start_kernel(interval_delta_kernel<kLanes>, {blocks, kIntervalThreads, stream}, a.data,
                 static_cast<const Bf16*>(a.out), static_cast<const Bf16*>(a.d_out), a.lse, a.d_lse,
                 static_cast<Bf16*>(a.d_qkv), a.delta);
  });
}

void start_interval_query(const IntervalBackwardArguments& a, int round, cudaStream_t stream) {
  const DropoutKeys keys = dropout_keys(a.data.draw);
  for (int g = 0; g < a.groups; ++g) {
    const IntervalGroup& group = a.group[g];
    if (group.blocks == 0) continue;
    const dim3 grid(static_cast<unsigned>(a.data.heads * group.pieces),
                    static_cast<unsigned>(group.blocks * group.tiles), static_cast<unsigned>(a.data.rows));
    choose_interval_kernel(a.data.width, a.data.draw.rate.threshold > 0, [&](auto width, auto drops) {
      constexpr int kWidth = decltype(width)::value;
      start_kernel(interval_query_kernel<kWidth, decltype(drops)::value>,
                   {grid, kIntervalThreads, stream, sizeof(QueryShared<kWidth>)}, a.data, group, round,
                   static_cast<const Bf16*>(a.d_out), a.lse, a.delta, static_cast<Bf16*>(a.d_qkv), a.pieces,
                   a.arrived, keys);
    });
  }
}

}  // namespace lra
