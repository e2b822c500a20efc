// CUDA side of pooling (pool.h), backwards.
#include "kernels/pool/pool_team.cuh"
#include "kernels/rows/partial_sums.cuh"

namespace lra {
namespace {

// a − mean(a) with a = weight ∘ d_pooled / length of row b; zeros beyond the width
template <class P, class A = typename P::A>
__device__ void load_upstream(const PoolBackwardArguments& g, int64_t b, A* scratch, typename P::Held& up) {
  const int64_t length = pool_row(g.in, b).length;
  const auto width = static_cast<int>(g.in.D);
  const A share = A(1) / static_cast<A>(length > 0 ? length : 1);
  const A *weight = static_cast<const A*>(g.in.weight),
          *d_pooled = static_cast<const A*>(g.d_pooled) + b * width;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const int c = P::column(k) + i;
      up[k][i] = c < width ? weight[c] * d_pooled[c] * share : A(0);
    }
  }
  const A mean = team_sum<P>(sum_of(up), scratch) / static_cast<A>(width);
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) up[k][i] -= P::column(k) + i < width ? mean : A(0);
  }
}

__device__ inline uint64_t start_of(const PoolBackwardArguments& g, int r) {
  return uint64_t{static_cast<uint32_t>(r)} * static_cast<uint32_t>(g.in.D);
}

// Zeros for the positions from `first` to `end` − 1.
template <class P>
__device__ void store_zeros(const PoolBackwardArguments& g, int first, int end) {
  using T = typename P::T;
  const auto width = static_cast<int>(g.in.D);
#pragma unroll 1
  for (int r = first + P::team(); r < end; r += P::kTeams) {
    const uint64_t start = start_of(g, r);
#pragma unroll
    for (int k = 0; k < kPoolHeld; ++k) {
      store_octet<P::kAligned>(static_cast<T*>(g.d_x) + start, P::column(k), width, Octet<T>{});
      if (g.d_branch)
        store_octet<P::kAligned>(static_cast<T*>(g.d_branch) + start, P::column(k), width, Octet<T>{});
    }
  }
}

template <class P>
struct BackwardPosition {
  using A = typename P::A;
  PoolRead<P> in;
  A mean, scale;  // 0 from position `end` on: no gradient

  __device__ BackwardPosition(const PoolArguments& a, int r, int end, bool draws)
      : in(a, r, end, draws),
        mean(r < end ? static_cast<const A*>(a.statistics)[2 * int64_t{r}] : A(0)),
        scale(r < end ? static_cast<const A*>(a.statistics)[2 * int64_t{r} + 1] : A(0)) {}
};

// The gradients of position r < end from its sum s; adds d_branch to `total`. Every thread of the block must
// come here.
template <class P>
__device__ void backward_position(const PoolBackwardArguments& g, int r, int end,
                                  const BackwardPosition<P>& position, const PhiloxBlock (&bits)[kPoolHeld],
                                  const typename P::Held& up, typename P::A* scratch, typename P::Held& s,
                                  typename P::Held& total) {
  using T = typename P::T;
  using A = typename P::A;
  A dot = 0;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      s[k][i] = (s[k][i] - position.mean) * position.scale;
      dot += up[k][i] * s[k][i];  // a ∘ u and (a − mean(a)) ∘ u have the same sum, as that of u is 0
    }
  }
  dot = team_sum<P>(dot, scratch) * (A(1) / static_cast<A>(static_cast<int>(g.in.D)));
  const int width = r < end ? static_cast<int>(g.in.D) : 0;
  const uint64_t start = start_of(g, r);
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) s[k][i] = (up[k][i] - s[k][i] * dot) * position.scale;
    store_octet<P::kAligned>(static_cast<T*>(g.d_x) + start, P::column(k), width, narrow<T>(s[k]));
    if (g.in.draw.rate.threshold > 0) drop_out(bits[k], g.in.draw.rate, s[k]);
    if (g.d_branch)
      store_octet<P::kAligned>(static_cast<T*>(g.d_branch) + start, P::column(k), width, narrow<T>(s[k]));
#pragma unroll
    for (int i = 0; i < kOctet; ++i) total[k][i] += s[k][i];
  }
}

// d_x and d_branch on the block's segment; partial[segment] = Σ d_branch.
template <class P>
__global__ void __launch_bounds__(kPoolThreads, sizeof(typename P::T) == 8 ? 1 : 2)
    pool_backward_kernel(PoolBackwardArguments g, DropoutKeys keys) {
  using A = typename P::A;
  __shared__ A scratch[kPoolThreads / 32];
  alignas(16) __shared__ A shared[P::kTeams * P::kColumns];  // the bias, then the sums of the block's teams
  const PoolArguments& a = g.in;
  const PoolSegment segment(a, kPoolBackwardBlocks);
  const bool draws = a.draw.rate.threshold > 0;
  const uint64_t stream = draws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  share_bias<P>(a, shared);
  typename P::Held up, total = {};
  for (int64_t b = segment.first_row(a); b < a.B && a.offsets[b] < segment.end; ++b) {
    const PoolPiece piece = segment.piece(a, b);
    store_zeros<P>(g, piece.first > piece.live ? piece.first : piece.live, piece.last);
    if (piece.first >= piece.live) continue;
    BackwardPosition<P> ahead(a, piece.first + P::team(), piece.live, draws);
    load_upstream<P>(g, b, scratch, up);
    for (int from = piece.first; from < piece.live; from += P::kTeams) {
      const int r = from + P::team();
      const BackwardPosition<P> position = ahead;
      ahead = BackwardPosition<P>(a, r + P::kTeams, piece.live, draws);
      typename P::Held s;
      PhiloxBlock bits[kPoolHeld];
      position.in.sum(a, keys, shared, draws, stream, s, bits);
      backward_position<P>(g, r, piece.live, position, bits, up, scratch, s, total);
    }
  }
  if (a.partial)
    add_teams<P>(total, static_cast<int>(a.D), shared, static_cast<A*>(a.partial) + blockIdx.x * a.D);
}

// The gradients of the parameters; block (x, y): 8 columns of the y-th.
template <class A>
__global__ __launch_bounds__(kSumColumns* kSumRows) void pool_parameters_kernel(PoolBackwardArguments g) {
  const PoolArguments& a = g.in;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  auto* into = static_cast<A*>(blockIdx.y == 0 ? g.d_bias : blockIdx.y == 1 ? g.d_weight : g.d_offset);
  if (!into) return;
  const bool adds = threadIdx.y == 0 && c < a.D;
  const A before = adds ? into[c] : A(0);
  const A *partial = static_cast<const A*>(a.partial) + c, *mean = static_cast<const A*>(a.mean) + c,
          *up = static_cast<const A*>(g.d_pooled) + c;
  // The outputs differ by block, not by thread.
  const bool bias = blockIdx.y == 0, weight = blockIdx.y == 1;
  const A sum = block_sum<kSumColumns, kSumRows, A>(
      c >= a.D ? 0
      : bias   ? a.parts
               : a.B,
      [&](int64_t i) { return bias ? partial[i * a.D] : up[i * a.D] * (weight ? mean[i * a.D] : A(1)); });
  if (adds) into[c] = before + sum;
}

int pool_backward_launch(const PoolBackwardArguments& g, CudaStream stream) {
  const PoolArguments& a = g.in;
  if (a.T > kPoolMostPositions || a.D < 1 || a.D > kPoolWidest) return cudaErrorInvalidValue;
  const auto s = static_cast<cudaStream_t>(stream);
  const bool aligned = all_aligned(a.D, static_cast<const char*>(a.x), static_cast<const char*>(a.branch),
                                   static_cast<char*>(g.d_x), static_cast<char*>(g.d_branch));
  choose_pool_plan(a.element, aligned, a.D, [&](auto plan) {
    using P = decltype(plan);
    start_kernel(pool_backward_kernel<P>, {static_cast<unsigned>(a.parts), kPoolThreads, s}, g,
                 dropout_keys(a.draw));
    if (!g.d_bias && !g.d_weight && !g.d_offset) return;
    const dim3 grid(static_cast<unsigned>((a.D + kSumColumns - 1) / kSumColumns), 3);
    start_kernel(pool_parameters_kernel<typename P::A>, {grid, dim3(kSumColumns, kSumRows), s}, g);
  });
  return cudaGetLastError();
}

const bool registered = (pool_backward_cuda = pool_backward_launch, true);

}  // namespace
}  // namespace lra
