// CUDA side of pooling (pool.h), backwards.
#include "kernels/pool/pool_team.cuh"

namespace lra {
namespace {

// a = weight ∘ d_pooled / length of row b
template <class A>
__device__ void load_upstream(const PoolBackwardArguments& g, const PoolTeam& team, int64_t b, int64_t length,
                              PoolHeld<A>& up) {
  const A share = A(1) / static_cast<A>(length > 0 ? length : 1);
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const int c = team.column(k) + i;
      up[k][i] = c < g.in.D ? static_cast<const A*>(g.in.weight)[c] *
                                  static_cast<const A*>(g.d_pooled)[b * g.in.D + c] * share
                            : 0;
    }
  }
}

// Writes a position's gradients from d_sum and adds d_branch to `total`.
template <class T, bool kAligned>
__device__ void store_gradient(const PoolBackwardArguments& g, const PoolTeam& team, int64_t r, bool inside,
                               const uint32_t (&kept)[kPoolHeld], PoolHeld<Accumulator<T>>& d,
                               PoolHeld<Accumulator<T>>& total) {
  const PoolArguments& a = g.in;
  const int width = inside ? static_cast<int>(a.D) : 0;
#pragma unroll
  for (int k = 0; k < kPoolHeld; ++k) {
    store_octet<kAligned>(static_cast<T*>(g.d_x) + r * a.D, team.column(k), width, narrow<T>(d[k]));
    if (a.draw.rate.threshold) drop(d[k], kept[k], a.draw.rate.scale);
    if (g.d_branch)
      store_octet<kAligned>(static_cast<T*>(g.d_branch) + r * a.D, team.column(k), width, narrow<T>(d[k]));
#pragma unroll
    for (int i = 0; i < kOctet; ++i) total[k][i] += d[k][i];
  }
}

// d_x and d_branch on a chunk of row b, zeros up to the next row; partial[b, part] = Σ d_branch.
template <class T, bool kAligned>
__global__ __launch_bounds__(kPoolThreads,
                             sizeof(T) == 8 ? 1 : 2) void pool_backward_kernel(PoolBackwardArguments g,
                                                                               int threads) {
  using A = Accumulator<T>;
  __shared__ A scratch[kPoolThreads / 32], shared[kPoolShared];
  const PoolArguments& a = g.in;
  const PoolTeam team(threads);
  const int64_t b = blockIdx.y;
  const PoolRow row = pool_row(a, b);
  const A width = static_cast<A>(a.D);
  const uint64_t stream = a.draw.rate.threshold ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  share_bias(a, shared);
  PoolHeld<A> up, total = {};
  load_upstream<A>(g, team, b, row.length, up);
  const A up_mean = team_sum(sum_of<A>(up), team, scratch) / width;
  for (int64_t first = blockIdx.x * kPoolChunk; first < row.span; first += a.parts * kPoolChunk) {
    const int64_t end = first + kPoolChunk < row.span ? first + kPoolChunk : row.span;
    for (int64_t from = first; from < end; from += team.count) {
      const int64_t t = from + team.index, r = row.start + t;
      const bool inside = t < end, live = inside && t < row.length;
      const A mean = live ? static_cast<const A*>(a.statistics)[2 * r] : 0;
      const A scale = live ? static_cast<const A*>(a.statistics)[2 * r + 1] : 0;
      PoolHeld<A> u = {};
      uint32_t kept[kPoolHeld] = {};
      if (live) load_sum<T, kAligned>(a, team, shared, stream, r, u, kept);
      A dot = 0;
#pragma unroll
      for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
          u[k][i] = (u[k][i] - mean) * scale;
          dot += up[k][i] * u[k][i];  // up is zero beyond the width
        }
      }
      dot = team_sum(dot, team, scratch) / width;
#pragma unroll
      for (int k = 0; k < kPoolHeld; ++k) {
#pragma unroll
        for (int i = 0; i < kOctet; ++i) u[k][i] = (up[k][i] - up_mean - u[k][i] * dot) * scale;
      }
      store_gradient<T, kAligned>(g, team, r, inside, kept, u, total);
    }
  }
  if (a.partial)
    add_teams<A>(total, team, a.D, shared, static_cast<A*>(a.partial) + (b * a.parts + blockIdx.x) * a.D);
}

// The gradients of the parameters: 32 threads take every 32nd row of a column.
template <class A>
__global__ __launch_bounds__(1024) void pool_parameters_kernel(PoolBackwardArguments g) {
  __shared__ A sums[3][32][32];
  const PoolArguments& a = g.in;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + x;
  A bias = 0, weight = 0, offset = 0;
  if (c < a.D) {
#pragma unroll 8
    for (int64_t i = y; i < (a.partial ? a.B * a.parts : 0); i += 32) {
      bias += static_cast<const A*>(a.partial)[i * a.D + c];
    }
    for (int64_t b = y; b < a.B; b += 32) {
      const A up = static_cast<const A*>(g.d_pooled)[b * a.D + c];
      weight += up * static_cast<const A*>(a.mean)[b * a.D + c];
      offset += up;
    }
  }
  sums[0][y][x] = bias;
  sums[1][y][x] = weight;
  sums[2][y][x] = offset;
  __syncthreads();
  if (y >= 3 || c >= a.D) return;
  auto* into = static_cast<A*>(y == 0 ? g.d_bias : y == 1 ? g.d_weight : g.d_offset);
  if (!into) return;
  A sum = 0;
  for (int i = 0; i < 32; ++i) sum += sums[y][i][x];
  into[c] += sum;
}

template <class T>
void backward(const PoolBackwardArguments& g, cudaStream_t stream) {
  using A = Accumulator<T>;
  const PoolArguments& a = g.in;
  const dim3 grid(static_cast<unsigned>(a.parts), static_cast<unsigned>(a.B));
  if (pool_aligned(a) && all_aligned(a.D, static_cast<T*>(g.d_x), static_cast<T*>(g.d_branch))) {
    pool_backward_kernel<T, true><<<grid, kPoolThreads, 0, stream>>>(g, pool_team_threads(a.D));
  } else {
    pool_backward_kernel<T, false><<<grid, kPoolThreads, 0, stream>>>(g, pool_team_threads(a.D));
  }
  if (!g.d_bias && !g.d_weight && !g.d_offset) return;
  pool_parameters_kernel<A><<<pool_blocks(a.D, 32), dim3(32, 32), 0, stream>>>(g);
}

int pool_backward_launch(const PoolBackwardArguments& g, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  if (g.in.element == 2) backward<__nv_bfloat16>(g, stream);
  if (g.in.element == 4) backward<float>(g, stream);
  if (g.in.element == 8) backward<double>(g, stream);
  return cudaGetLastError();
}

const bool registered = (pool_backward_cuda = pool_backward_launch, true);

}  // namespace
}  // namespace lra
