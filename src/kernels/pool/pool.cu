// CUDA side of pooling (pool.h), forwards.
#include "kernels/pool/pool_team.cuh"

namespace lra {
namespace {

// partial[b, part] = Σ u over a chunk of row b; nothing for chunks beyond its end.
template <class T, bool kAligned>
__global__ __launch_bounds__(kPoolThreads) void pool_sums_kernel(PoolArguments a, int threads) {
  using A = Accumulator<T>;
  __shared__ A scratch[kPoolThreads / 32], shared[kPoolShared];
  const PoolTeam team(threads);
  const int64_t b = blockIdx.y, first = blockIdx.x * kPoolChunk;
  const PoolRow row = pool_row(a, b);
  if (first >= row.length) return;
  const int64_t end = first + kPoolChunk < row.length ? first + kPoolChunk : row.length;
  const A width = static_cast<A>(a.D);
  const uint64_t stream = a.draw.rate.threshold ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  share_bias(a, shared);
  PoolHeld<A> total = {};
  for (int64_t from = first; from < end; from += team.count) {
    const bool live = from + team.index < end;
    const int64_t r = row.start + from + team.index;
    PoolHeld<A> s = {};
    uint32_t kept[kPoolHeld];
    if (live) load_sum<T, kAligned>(a, team, shared, stream, r, s, kept);
    const A mean = team_sum(sum_of<A>(s), team, scratch) / width;
    A squares = 0;
#pragma unroll
    for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        s[k][i] = team.column(k) + i < a.D ? s[k][i] - mean : 0;
        squares += s[k][i] * s[k][i];
      }
    }
    const A scale = rsqrt(team_sum(squares, team, scratch) / width + static_cast<A>(kPoolEpsilon));
    if (!live) continue;
#pragma unroll
    for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) total[k][i] += s[k][i] * scale;
    }
    if (a.statistics && team.lane == 0) {
      static_cast<A*>(a.statistics)[2 * r] = mean;
      static_cast<A*>(a.statistics)[2 * r + 1] = scale;
    }
  }
  add_teams<A>(total, team, a.D, shared, static_cast<A*>(a.partial) + (b * a.parts + blockIdx.x) * a.D);
}

// ū and pooled from the partial sums: 8 threads take every 8th part of a column.
template <class A>
__global__ __launch_bounds__(kPoolThreads) void pool_mean_kernel(PoolForwardArguments f) {
  __shared__ A sums[8][32];
  const PoolArguments& a = f.in;
  const int64_t b = blockIdx.y, c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t length = pool_row(a, b).length, parts = (length + kPoolChunk - 1) / kPoolChunk;
  A sum = 0;
  if (c < a.D) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < parts; part += 8) {
      sum += static_cast<const A*>(a.partial)[(b * a.parts + part) * a.D + c];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y || c >= a.D) return;
  for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  const A mean = sum / static_cast<A>(length > 0 ? length : 1);
  static_cast<A*>(a.mean)[b * a.D + c] = mean;
  static_cast<A*>(f.pooled)[b * a.D + c] =
      static_cast<const A*>(a.weight)[c] * mean + static_cast<const A*>(f.offset)[c];
}

template <class T>
void forward(const PoolForwardArguments& f, cudaStream_t stream) {
  using A = Accumulator<T>;
  const PoolArguments& a = f.in;
  const dim3 grid(a.lengths ? static_cast<unsigned>(a.parts) : 1, static_cast<unsigned>(a.B));
  if (pool_aligned(a)) {
    pool_sums_kernel<T, true><<<grid, kPoolThreads, 0, stream>>>(a, pool_team_threads(a.D));
  } else {
    pool_sums_kernel<T, false><<<grid, kPoolThreads, 0, stream>>>(a, pool_team_threads(a.D));
  }
  const dim3 columns(pool_blocks(a.D, 32), static_cast<unsigned>(a.B));
  pool_mean_kernel<A><<<columns, dim3(32, 8), 0, stream>>>(f);
}

int pool_forward_launch(const PoolForwardArguments& f, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  if (f.in.element == 2) forward<__nv_bfloat16>(f, stream);
  if (f.in.element == 4) forward<float>(f, stream);
  if (f.in.element == 8) forward<double>(f, stream);
  return cudaGetLastError();
}

const bool registered = (pool_forward_cuda = pool_forward_launch, true);

}  // namespace
}  // namespace lra
