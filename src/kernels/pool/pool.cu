// CUDA side of pooling (pool.h), forwards.
#include "kernels/pool/pool_team.cuh"
#include "kernels/rows/partial_sums.cuh"

namespace lra {
namespace {

// `s` becomes s − mean; beyond the width it is 0 and stays so. Returns 1 / σ.
template <class P, class A = typename P::A>
__device__ A centre(int width, typename P::Held& s, A* scratch, A& mean) {
  const A share = A(1) / static_cast<A>(width);
  mean = team_sum<P>(sum_of(s), scratch) * share;
  A squares = 0;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      s[k][i] -= P::column(k) + (P::kAligned ? 0 : i) < width ? mean : A(0);
      squares += s[k][i] * s[k][i];
    }
  }
  return rsqrt(team_sum<P>(squares, scratch) * share + static_cast<A>(kPoolEpsilon));
}

// Blocks that shall fit on a multiprocessor: what the number of registers is held to.
template <class P>
constexpr int kBlocks = sizeof(typename P::T) == 8                   ? 1
                        : sizeof(typename P::T) == 4 || !P::kAligned ? 2
                                                                     : 4;

// partial[segment + b] = Σ u over the positions of row b that lie in the block's segment and count; nothing
// where there are none.
template <class P>
__global__ void __launch_bounds__(kPoolThreads, kBlocks<P>)
    pool_sums_kernel(PoolArguments a, DropoutKeys keys) {
  using A = typename P::A;
  __shared__ A scratch[kPoolThreads / 32];
  alignas(16) __shared__ A shared[P::kTeams * P::kColumns];  // the bias, then the sums of the block's teams
  const PoolSegment segment(a, pool_forward_blocks(sizeof(typename P::T)));
  const auto width = static_cast<int>(a.D);
  const bool draws = a.draw.rate.threshold > 0;
  const uint64_t stream = draws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  for (int64_t b = segment.first_row(a); b < a.B && a.offsets[b] < segment.end; ++b) {
    const PoolPiece piece = segment.piece(a, b);
    if (piece.first >= piece.live) continue;
    share_bias<P>(a, shared);
    typename P::Held total = {};
    for (int from = piece.first; from < piece.live; from += P::kTeams) {
      const int r = from + P::team();
      const PoolRead<P> in(a, r, piece.live, draws);
      typename P::Held s;
      PhiloxBlock bits[kPoolHeld];
      in.sum(a, keys, shared, draws, stream, s, bits);
      A mean;
      const A scale = centre<P>(width, s, scratch, mean), counts = r < piece.live ? scale : A(0);
#pragma unroll
      for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
        for (int i = 0; i < kOctet; ++i) total[k][i] += s[k][i] * counts;
      }
      if (a.statistics && P::lane() == 0 && r < piece.live) {
        static_cast<A*>(a.statistics)[2 * int64_t{r}] = mean;
        static_cast<A*>(a.statistics)[2 * int64_t{r} + 1] = scale;
      }
    }
    add_teams<P>(total, width, shared, static_cast<A*>(a.partial) + (blockIdx.x + b) * a.D);
  }
}

constexpr int kMeanColumns = 32, kMeanRows = 8;  // threads of a block

// ū and pooled of row b from the sums over its segments.
template <class A>
__global__ __launch_bounds__(kMeanColumns* kMeanRows) void pool_mean_kernel(PoolForwardArguments f) {
  const PoolArguments& a = f.in;
  const int64_t b = blockIdx.y, c = static_cast<int64_t>(blockIdx.x) * kMeanColumns + threadIdx.x;
  const PoolRow row = pool_row(a, b);
  const int64_t size = pool_segment_size(a.T, pool_forward_blocks(a.element)), first = row.start / size,
                segments = row.length > 0 ? (row.start + row.length - 1) / size - first + 1 : 0;
  const A* sums = static_cast<const A*>(a.partial) + (first + b) * a.D + c;
  const A sum =
      block_sum<kMeanColumns, kMeanRows, A>(c < a.D ? segments : 0, [&](int64_t s) { return sums[s * a.D]; });
  if (threadIdx.y > 0 || c >= a.D) return;
  const A mean = sum / static_cast<A>(row.length > 0 ? row.length : 1);
  static_cast<A*>(a.mean)[b * a.D + c] = mean;
  static_cast<A*>(f.pooled)[b * a.D + c] =
      static_cast<const A*>(a.weight)[c] * mean + static_cast<const A*>(f.offset)[c];
}

int pool_forward_launch(const PoolForwardArguments& f, CudaStream stream) {
  const PoolArguments& a = f.in;
  if (a.T > kPoolMostPositions || a.D < 1 || a.D > kPoolWidest) return cudaErrorInvalidValue;
  const auto s = static_cast<cudaStream_t>(stream);
  const bool aligned = all_aligned(a.D, static_cast<const char*>(a.x), static_cast<const char*>(a.branch));
  choose_pool_plan(a.element, aligned, a.D, [&](auto plan) {
    using P = decltype(plan);
    start_kernel(pool_sums_kernel<P>, {static_cast<unsigned>(a.parts), kPoolThreads, s}, a,
                 dropout_keys(a.draw));
    const dim3 grid(static_cast<unsigned>((a.D + kMeanColumns - 1) / kMeanColumns),
                    static_cast<unsigned>(a.B));
    start_kernel(pool_mean_kernel<typename P::A>, {grid, dim3(kMeanColumns, kMeanRows), s}, f);
  });
  return cudaGetLastError();
}

const bool registered = (pool_forward_cuda = pool_forward_launch, true);

}  // namespace
}  // namespace lra
