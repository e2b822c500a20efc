// How pooling is laid out on CUDA, for both directions.
//
// A block of 256 threads takes a segment of the buffer (pool_segments) and goes through the rows in it. A
// team of 8 to 256 threads, the fewest that hold a position in registers with two octets each, takes one
// position at a time; backwards the next is being read while it works on one. Loops are uniform in a block,
// so that the sums across a team may use its barrier.
#pragma once
#include "kernels/pool/pool_arguments.h"
#include "kernels/rows/octet.cuh"

namespace lra {

inline constexpr int kPoolThreads = 256, kPoolHeld = 2;  // threads of a block, octets of a thread
inline constexpr int64_t kPoolMostPositions = 1 << 30;   // they are counted in 32 bits

template <class Element, int kLanes_, bool kAligned_>
struct PoolPlan {
  using T = Element;
  using A = Accumulator<T>;
  using Held = A[kPoolHeld][kOctet];
  static constexpr bool kAligned = kAligned_;
  static constexpr int kLanes = kLanes_, kTeams = kPoolThreads / kLanes;
  static constexpr int kColumns = kLanes * kPoolHeld * kOctet;  // of a team

  // The thread's place: of the columns it holds octets lane and lane + kLanes.
  __device__ static int team() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static int column(int k) { return (lane() + k * kLanes) * kOctet; }
};

// Positions that a block has of row b: those that count are first … live − 1, the others live … last − 1.
struct PoolPiece {
  int first, live, last;
};
struct PoolSegment {
  int begin, end;

  __device__ PoolSegment(const PoolArguments& a, int64_t blocks) {
    const int64_t size = pool_segment_size(a.T, blocks), from = blockIdx.x * size;
    begin = static_cast<int>(from);
    end = static_cast<int>(from + size < a.T ? from + size : a.T);
  }
  __device__ PoolPiece piece(const PoolArguments& a, int64_t b) const {
    const PoolRow row = pool_row(a, b);
    const auto start = static_cast<int>(row.start), live = start + static_cast<int>(row.length),
               last = start + static_cast<int>(row.span);
    return {start > begin ? start : begin, live < end ? live : end, last < end ? last : end};
  }
  // The row at its beginning: the last that does not start behind it. All threads of the block come here.
  __device__ int64_t first_row(const PoolArguments& a) const {
    int64_t rows = 0;
    for (int64_t from = 0; from < a.B; from += kPoolThreads) {
      const int64_t b = from + threadIdx.x;
      const int before = __syncthreads_count(b < a.B && a.offsets[b] <= begin);
      rows += before;
      if (before < kPoolThreads) break;
    }
    return rows > 0 ? rows - 1 : 0;
  }
};

// The sum over a team, for all its threads. Every thread of the block must come here.
template <class P, class A = typename P::A>
__device__ inline A team_sum(A value, A* scratch /* [kPoolThreads / 32] */) {
#pragma unroll
  for (int o = (P::kLanes < 32 ? P::kLanes : 32) / 2; o > 0; o /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, o);
  if constexpr (P::kLanes > 32) {
    constexpr int kWarps = P::kLanes / 32;
    __syncthreads();  // the last sum has been read
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) value += scratch[P::team() * kWarps + w];
  }
  return value;
}

template <class A>
__device__ inline A sum_of(const A (&x)[kPoolHeld][kOctet]) {
  A sum = 0;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += x[k][i];
  }
  return sum;
}

// The bias in shared memory, zeros beyond the width: parameters lie on no particular boundary. `shared` may
// have been in use: there is a barrier first.
template <class P>
__device__ inline void share_bias(const PoolArguments& a, typename P::A* shared) {
  if (!a.bias) return;
  const auto width = static_cast<int>(a.D);
  __syncthreads();
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < P::kColumns; c += kPoolThreads) {
    shared[c] = c < width ? static_cast<const typename P::A*>(a.bias)[c] : 0;
  }
  __syncthreads();
}

// What is read of position r, or of the last before `end`, whose gradients and sums count nothing then; zeros
// beyond the width. There is one.
template <class P>
struct PoolRead {
  using T = typename P::T;
  Octet<T> x[kPoolHeld], branch[kPoolHeld];
  int64_t slot;

  __device__ PoolRead(const PoolArguments& a, int r, int end, bool draws) {
    const int width = static_cast<int>(a.D), there = r < end ? r : end - 1;
    const T *from_x = row(a.x, there, width), *from_branch = row(a.branch, there, width);
#pragma unroll
    for (int k = 0; k < kPoolHeld; ++k) {
      constexpr int kStep = P::kLanes * kOctet;
      const int left = width - P::column(k);
      x[k] = load_octet<P::kAligned>(from_x + k * kStep, 0, left);
      branch[k] = load_octet<P::kAligned>(from_branch + k * kStep, 0, a.branch ? left : 0);
    }
    slot = draws ? a.draw.slots[there] : 0;
  }

  // Its first octet of the row. So written, it is one multiplication.
  __device__ static const T* row(const void* all, int r, int width) {
    const auto* column = reinterpret_cast<const char*>(static_cast<const T*>(all) + P::column(0));
    const auto bytes = static_cast<uint32_t>(width) * static_cast<uint32_t>(sizeof(T));
    return reinterpret_cast<const T*>(column + uint64_t{static_cast<uint32_t>(r)} * bytes);
  }

  // s = x + dropout(branch + bias), and dropout's numbers.
  __device__ void sum(const PoolArguments& a, const DropoutKeys& keys, const typename P::A* bias, bool draws,
                      uint64_t stream, typename P::Held& s, PhiloxBlock (&bits)[kPoolHeld]) const {
    const int width = static_cast<int>(a.D);
#pragma unroll
    for (int k = 0; k < kPoolHeld; ++k) {
      typename P::A y[kOctet];
      widen(x[k], s[k]);
      widen(branch[k], y);
      if (a.bias) {
#pragma unroll
        for (int i = 0; i < kOctet; ++i) y[i] += bias[P::column(k) + i];
      }
      if (draws) {
        bits[k] = draw_octet(keys, stream, slot, P::column(k), width);
        drop_out(bits[k], a.draw.rate, y);
      }
#pragma unroll
      for (int i = 0; i < kOctet; ++i) s[k][i] += y[i];
    }
  }
};

// out[c] = the sum over teams, in their order. `shared` may have been in use: there is a barrier first.
template <class P>
__device__ inline void add_teams(const typename P::Held& total, int width, typename P::A* shared,
                                 typename P::A* out) {
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) shared[P::team() * P::kColumns + P::column(k) + i] = total[k][i];
  }
  __syncthreads();
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kPoolThreads) {
    typename P::A sum = 0;
    for (int t = 0; t < P::kTeams; ++t) sum += shared[t * P::kColumns + c];
    out[c] = sum;
  }
}

// start(plan) with the fewest lanes for this width.
template <class T, bool kAligned, class Start>
void choose_pool_plan(int64_t width, const Start& start) {
  if constexpr (kAligned) {
    if (width <= 128) return start(PoolPlan<T, 8, true>());
    if (width <= 256) return start(PoolPlan<T, 16, true>());
  }
  if (width <= 512) return start(PoolPlan<T, 32, kAligned>());
  if constexpr (kAligned) {
    if (width <= 1024) return start(PoolPlan<T, 64, true>());
    if (width <= 2048) return start(PoolPlan<T, 128, true>());
  }
  start(PoolPlan<T, 256, kAligned>());
}

template <class Start>
void choose_pool_plan(int element, bool aligned, int64_t width, const Start& start) {
  if (element == 2 && aligned) choose_pool_plan<__nv_bfloat16, true>(width, start);
  if (element == 2 && !aligned) choose_pool_plan<__nv_bfloat16, false>(width, start);
  if (element == 4 && aligned) choose_pool_plan<float, true>(width, start);
  if (element == 4 && !aligned) choose_pool_plan<float, false>(width, start);
  if (element == 8) choose_pool_plan<double, false>(width, start);  // not for speed: one kernel will do
}

}  // namespace lra
