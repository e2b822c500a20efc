// How pooling is laid out on CUDA, for both directions.
//
// A team of 4 to 256 threads, the fewest that hold a position in registers with two octets each, takes one
// position at a time; a block of 256 threads takes a chunk of a row. Loops are uniform in a block, so that
// the sums across a team may use its barrier.
#pragma once
#include "kernels/embed/octet.cuh"
#include "kernels/pool/pool_arguments.h"

namespace lra {

inline constexpr int kPoolThreads = 256, kPoolHeld = 2;  // threads of a block, octets of a thread

// The thread's place in its team, and which columns it holds: octets lane and lane + size.
struct PoolTeam {
  int size, index, count, lane;

  __device__ explicit PoolTeam(int threads)
      : size(threads),
        index(static_cast<int>(threadIdx.x) / threads),
        count(kPoolThreads / threads),
        lane(static_cast<int>(threadIdx.x) % threads) {}
  __device__ int64_t octet(int k) const { return lane + static_cast<int64_t>(k) * size; }
  __device__ int valid(int k, int64_t D) const {  // elements of octet k that exist
    const int64_t left = D - octet(k) * 8;
    return left < 0 ? 0 : left > 8 ? 8 : static_cast<int>(left);
  }
};

template <class A>
using PoolHeld = Octet<A>[kPoolHeld];

// The sum over a team, for all its threads. Every thread of the block must come here.
template <class A>
__device__ inline A team_sum(A value, const PoolTeam& team, A* scratch /* [kPoolThreads / 32] */) {
  for (int o = (team.size < 32 ? team.size : 32) / 2; o > 0; o /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, o);
  if (team.size <= 32) return value;
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = team.size / 32;
  __syncthreads();  // the last sum has been read
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  A sum = 0;
  for (int w = 0; w < warps; ++w) sum += scratch[team.index * warps + w];
  return sum;
}

template <class A>
__device__ inline A sum_of(const PoolHeld<A>& x) {
  A sum = 0;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += x[k].v[i];
  }
  return sum;
}

// x + dropout(branch + bias) at position r; zeros beyond the width. kept: dropout's choice, an octet each.
template <class T, bool kVector>
__device__ inline void load_sum(const PoolArguments& a, const PoolTeam& team, int64_t r,
                                PoolHeld<typename Wide<T>::type>& s, uint32_t (&kept)[kPoolHeld]) {
  using A = typename Wide<T>::type;
  PoolHeld<A> branch = {};
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
    const int n = team.valid(k, a.D);
    const int64_t c = team.octet(k) * 8;
    if (n == 0) continue;
    s[k] = load_octet<kVector>(static_cast<const T*>(a.x) + r * a.D + c, n);
    if (a.branch) branch[k] = load_octet<kVector>(static_cast<const T*>(a.branch) + r * a.D + c, n);
  }
  if (!a.branch) return;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
    const int n = team.valid(k, a.D);
    if (n == 0) continue;
    if (a.bias) {
      const Octet<A> bias = load_octet<kVector>(static_cast<const A*>(a.bias) + team.octet(k) * 8, n);
#pragma unroll
      for (int i = 0; i < 8; ++i) branch[k].v[i] += bias.v[i];
    }
    if (a.draw.rate.threshold) {
      kept[k] = kept_octet(a.draw, r, team.octet(k), a.D);
      drop(branch[k], kept[k], a.draw.rate.scale);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) s[k].v[i] += branch[k].v[i];
  }
}

// out[c] = the sum over teams, in their order.
template <class A>
__device__ inline void add_teams(const PoolHeld<A>& total, const PoolTeam& team, int64_t D, A* shared,
                                 A* out) {
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      shared[team.index * team.size * kPoolHeld * 8 + team.octet(k) * 8 + i] = total[k].v[i];
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < D; c += kPoolThreads) {
    A sum = 0;
    for (int t = 0; t < team.count; ++t) sum += shared[t * team.size * kPoolHeld * 8 + c];
    out[c] = sum;
  }
}

inline unsigned pool_blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

inline int pool_team_threads(int64_t D) {
  int threads = 4;
  while (threads * kPoolHeld * 8 < D) threads *= 2;
  return threads;
}

inline bool pool_aligned(const PoolArguments& a) {
  return octets_aligned(a.x, a.D) && octets_aligned(a.branch, a.D) && octets_aligned(a.bias, a.D);
}

}  // namespace lra
