// CUDA side of interval_attention.h, forward: the softmax of a tile of queries over the keys it sees is kept
// up to date tile by tile (interval_keys.cuh). Scores are scaled by log₂ e and exponentials are powers of 2.
#include "kernels/interval_attention/interval_keys.cuh"

namespace lra {
namespace {

// The softmax of a lane's two queries so far: the largest score (not scaled), Σ exp and Σ exp · v relative to
// it. The sum is that of the lane's own columns until the end.
template <int kWidth>
struct Softmax {
  float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  float out[kWidth / 8][4] = {};

  __device__ void raise(int r, float to, float scale) {
    const float factor = to == most[r] ? 1.0f : fast_exp2((most[r] - to) * scale);
    most[r] = to;
    sum[r] *= factor;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      out[n][2 * r] *= factor;
      out[n][2 * r + 1] *= factor;
    }
  }
};

// Scores become weights that are still to be divided by their sum.
template <int kWidth, int kColumns>
__device__ inline void weigh(Softmax<kWidth>& softmax, float (&s)[kColumns][4], float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = softmax.most[r];
#pragma unroll
    for (int n = 0; n < kColumns; ++n) most = fmaxf(most, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    softmax.raise(r, most, scale);
    const float origin = most == -INFINITY ? 0.0f : most * scale;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& weight = s[n][2 * r + e];
        weight = fast_exp2(fmaf(weight, scale, -origin));
        softmax.sum[r] += weight;
      }
    }
  }
}

// Pieces of a softmax lie in memory register by register.
template <int kWidth>
__device__ inline void leave(const Softmax<kWidth>& softmax, float* piece) {
  float* at = piece + this_thread();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    at[r * kIntervalThreads] = softmax.most[r];
    at[(2 + r) * kIntervalThreads] = softmax.sum[r];
  }
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) at[(4 + n * 4 + i) * kIntervalThreads] = softmax.out[n][i];
  }
}

template <int kWidth>
__device__ inline void join(Softmax<kWidth>& softmax, const float* piece, float scale) {
  const float* at = piece + this_thread();
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float most = __ldcg(at + r * kIntervalThreads);
    softmax.raise(r, fmaxf(most, softmax.most[r]), scale);
    factor[r] = most == softmax.most[r] ? 1.0f : fast_exp2((most - softmax.most[r]) * scale);
    softmax.sum[r] += factor[r] * __ldcg(at + (2 + r) * kIntervalThreads);
  }
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      softmax.out[n][i] += factor[i / 2] * __ldcg(at + (4 + n * 4 + i) * kIntervalThreads);
    }
  }
}

template <int kWidth>
constexpr int kForwardBlocks = kWidth <= 16   ? 4
                               : kWidth <= 64 ? 3
                                              : 2;  // on a multiprocessor

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(kIntervalThreads, kForwardBlocks<kWidth>)
    interval_forward_kernel(IntervalData d, IntervalGroup group, Bf16* out, float* lse, float* all_pieces,
                            int32_t* arrived, DropoutKeys keys) {
  constexpr int kColumns = kWidth <= 96 ? 8 : 4;  // octets of keys at a time: what registers hold
  const QueryTile q(d, group, 0);
  if (q.count <= 0) return;
  auto& shared = *dynamic_shared<QueryShared<kWidth>>();
  KeyWalk<kWidth> walk(d, group, q, shared);
  int pieces, from, to;
  if (!walk.take_piece(q.piece(group), pieces, from, to)) return;
  const bool busy = this_warp() * 16 < q.count;
  const float scale = d.scale * kLog2E;
  const QueryPair pair = walk.queries();
  if (kDrops && this_thread() == 0) shared.draw = WeightDraw(d, q.row_start, q.head);
  Softmax<kWidth> softmax;
  uint32_t left[kWidth / 16][4];
  walk.copy_queries(nullptr);
  walk.run(
      from, to, [&] { load_left<kWidth>(left, shared.k[1]); },
      [&](const Bf16* k, const Bf16* v, const KeyTile& tile) {
        if (!busy) return;
#pragma unroll 1
        for (int octet = 0; octet < kIntervalTile / kOctet; octet += kColumns) {
          float s[kColumns][4] = {};
          multiply_rows<kWidth>(s, left, k, octet * kOctet);
          walk.mask(s, tile, pair, octet * kOctet);
          weigh(softmax, s, scale);
          if constexpr (kDrops) {
            const uint32_t kept = walk.template draw<kColumns>(shared.draw, keys, tile, pair, octet);
#pragma unroll
            for (int n = 0; n < kColumns; ++n) {
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                if (!((kept >> (16 * (i / 2) + 2 * n + i % 2)) & 1u)) s[n][i] = 0;
              }
            }
          }
          uint32_t weights[kColumns / 2][4];
          as_left(weights, s);
          multiply_columns<kWidth>(softmax.out, weights, v, octet * kOctet);
        }
      });
  if (pieces > 1) {
    const int64_t number = q.number(group), floats = kIntervalThreads * (kWidth / 2 + 4);
    float* first = all_pieces + number * group.pieces * floats;
    leave(softmax, first + q.piece(group) * floats);
    if (!last_to_arrive(arrived + number, pieces)) return;
    softmax = Softmax<kWidth>();
    for (int i = 0; i < pieces; ++i) join(softmax, first + i * floats, scale);
  }
  if (!busy) return;
  const int heads = d.rounds * d.heads;
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = softmax.sum[r];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    factor[r] = sum > 0 ? (kDrops ? d.draw.rate.scale : 1.0f) / sum : 0.0f;
    const int row = this_warp() * 16 + this_lane() / 4 + 8 * r;
    if (this_lane() % 4 == 0 && row < q.count) {
      // A query without keys: what weighs nothing beside any other.
      const float value = sum > 0 ? softmax.most[r] * d.scale + logf(sum) : -1e30f;
      lse[int64_t{shared.position[row]} * heads + q.virtual_head] = value == 0 ? -0.0f : value;
    }
  }
  // The stage that was not worked on last.
  store_rows<kWidth>(shared.k[(to - from) % 2], softmax.out, factor, d.width, false, [&](int row) {
    return row < q.count ? out + (int64_t{shared.position[row]} * heads + q.virtual_head) * d.width : nullptr;
  });
}

// Zeros for what is no query; kLanes threads for each position and virtual head.
template <int kLanes>
__global__ void __launch_bounds__(kIntervalThreads)
    interval_blank_kernel(IntervalData d, const float* lse, Bf16* out) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kIntervalThreads + this_thread()) / kLanes;
  if (at >= d.positions * d.rounds * d.heads || is_query(lse[at])) return;
  store_octet<true>(out + at * d.width, this_thread() % kLanes * kOctet, d.width, Octet<Bf16>{});
}

int forward_launch(const IntervalForwardArguments& a, CudaStream stream) {
  const DropoutKeys keys = dropout_keys(a.data.draw);
  for (int g = 0; g < a.groups; ++g) {
    const IntervalGroup& group = a.group[g];
    if (group.blocks == 0 || a.data.rows == 0) continue;
    const dim3 grid(static_cast<unsigned>(a.data.rounds * a.data.heads * group.pieces),
                    static_cast<unsigned>(group.blocks * group.tiles), static_cast<unsigned>(a.data.rows));
    choose_interval_kernel(a.data.width, a.data.draw.rate.threshold > 0, [&](auto width, auto drops) {
      constexpr int kWidth = decltype(width)::value;
      start_kernel(interval_forward_kernel<kWidth, decltype(drops)::value>,
                   {grid, kIntervalThreads, static_cast<cudaStream_t>(stream), sizeof(QueryShared<kWidth>)},
                   a.data, group, static_cast<Bf16*>(a.out), a.lse, a.pieces, a.arrived, keys);
    });
  }
  choose_lanes(a.data.width, [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    const int64_t threads = a.data.positions * a.data.rounds * a.data.heads * kLanes;
    const auto blocks = static_cast<unsigned>((threads + kIntervalThreads - 1) / kIntervalThreads);
    if (blocks == 0) return;
    start_kernel(interval_blank_kernel<kLanes>, {blocks, kIntervalThreads, static_cast<cudaStream_t>(stream)},
                 a.data, a.lse, static_cast<Bf16*>(a.out));
  });
  return cudaGetLastError();
}

const bool registered = (interval_forward_cuda = forward_launch, true);

}  // namespace
}  // namespace lra
