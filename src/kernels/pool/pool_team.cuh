// How pooling is laid out on CUDA, for both directions.
//
// A team of 4 to 256 threads, the fewest that hold a position in registers with two octets each, takes one
// position at a time; a block of 256 threads takes a chunk of a row. Loops are uniform in a block, so that
// the sums across a team may use its barrier.
#pragma once
#include "kernels/pool/pool_arguments.h"
#include "kernels/rows/octet.cuh"

namespace lra {

inline constexpr int kPoolThreads = 256, kPoolHeld = 2;  // threads of a block, octets of a thread
inline constexpr int kPoolShared = kPoolThreads * kPoolHeld * kOctet;

// The thread's place in its team, and which columns it holds: those of octets lane and lane + size.
struct PoolTeam {
  int size, index, count, lane;

  __device__ explicit PoolTeam(int threads)
      : size(threads),
        index(static_cast<int>(threadIdx.x) / threads),
        count(kPoolThreads / threads),
        lane(static_cast<int>(threadIdx.x) % threads) {}
  __device__ int column(int k) const { return (lane + k * size) * kOctet; }
};

template <class A>
using PoolHeld = A[kPoolHeld][kOctet];

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
    for (int i = 0; i < kOctet; ++i) sum += x[k][i];
  }
  return sum;
}

// The bias in shared memory, zeros beyond the width: parameters lie on no particular boundary.
template <class A>
__device__ inline void share_bias(const PoolArguments& a, A* shared /* [kPoolShared] */) {
  if (!a.bias) return;
  for (int c = static_cast<int>(threadIdx.x); c < kPoolShared; c += kPoolThreads) {
    shared[c] = c < a.D ? static_cast<const A*>(a.bias)[c] : 0;
  }
  __syncthreads();
}

// Bit i: element i of the octet is kept.
__device__ inline uint32_t kept_octet(const DropoutDraw& draw, uint64_t stream, int64_t r, int c,
                                      int64_t width) {
  const PhiloxBlock block =
      dropout_block(draw.seed, stream,
                    (dropout_position(__ldg(draw.slots + r), width) + static_cast<uint64_t>(c)) / kOctet);
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    kept |= static_cast<uint32_t>(dropout_bits(block, i) >= draw.rate.threshold) << i;
  }
  return kept;
}

template <class A>
__device__ inline void drop(A (&x)[kOctet], uint32_t kept, float scale) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] = (kept >> i) & 1u ? x[i] * static_cast<A>(scale) : A(0);
}

// x + dropout(branch + bias) at position r; zeros beyond the width. kept: dropout's choice for each octet.
template <class T, bool kAligned>
__device__ inline void load_sum(const PoolArguments& a, const PoolTeam& team, const Accumulator<T>* bias,
                                uint64_t stream, int64_t r, PoolHeld<Accumulator<T>>& s,
                                uint32_t (&kept)[kPoolHeld]) {
  using A = Accumulator<T>;
  const int width = static_cast<int>(a.D);
  Octet<T> x[kPoolHeld], branch[kPoolHeld] = {};
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
    x[k] = load_octet<kAligned>(static_cast<const T*>(a.x) + r * a.D, team.column(k), width);
    if (a.branch)
      branch[k] = load_octet<kAligned>(static_cast<const T*>(a.branch) + r * a.D, team.column(k), width);
  }
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
    widen(x[k], s[k]);
    if (!a.branch) continue;
    A y[kOctet];
    widen(branch[k], y);
    if (a.bias) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) y[i] += bias[team.column(k) + i];
    }
    if (a.draw.rate.threshold) {
      kept[k] = kept_octet(a.draw, stream, r, team.column(k), a.D);
      drop(y, kept[k], a.draw.rate.scale);
    }
#pragma unroll
    for (int i = 0; i < kOctet; ++i) s[k][i] += y[i];
  }
}

// out[c] = the sum over teams, in their order. `shared` may have been in use: there is a barrier first.
template <class A>
__device__ inline void add_teams(const PoolHeld<A>& total, const PoolTeam& team, int64_t D, A* shared,
                                 A* out) {
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      shared[team.index * team.size * kPoolHeld * kOctet + team.column(k) + i] = total[k][i];
    }
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < D; c += kPoolThreads) {
    A sum = 0;
    for (int t = 0; t < team.count; ++t) sum += shared[t * team.size * kPoolHeld * kOctet + c];
    out[c] = sum;
  }
}

inline unsigned pool_blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

inline int pool_team_threads(int64_t D) {
  int threads = 4;
  while (threads * kPoolHeld * kOctet < D) threads *= 2;
  return threads;
}

inline bool pool_aligned(const PoolArguments& a) {
  return all_aligned(a.D, static_cast<const char*>(a.x), static_cast<const char*>(a.branch));
}

}  // namespace lra
