// CUDA side of orthogonal_features.h, one launch: a block of threads has a block of directions in shared
// memory. After step i of Gram and Schmidt the rows behind row i are free of its direction; a warp has a row
// at a time.
#include "base/cuda_start.cuh"
#include "kernels/noise/noise.cuh"
#include "kernels/orthogonal_features/orthogonal_features_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 1024, kWarp = 32, kWarps = kThreads / kWarp;

struct Products {
  double own, with;  // q·q, q·row
};

// By a warp; every lane gets the sums. Both at a time: a step of Gram and Schmidt waits for nothing else.
__device__ Products products(const double* q, const double* row, int n) {
  Products sum{0, 0};
  for (int d = static_cast<int>(threadIdx.x) % kWarp; d < n; d += kWarp) {
    sum.own += q[d] * q[d];
    sum.with += q[d] * row[d];
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const double own = __shfl_xor_sync(0xffffffffu, sum.own, offset);
    sum.with += __shfl_xor_sync(0xffffffffu, sum.with, offset);
    sum.own += own;
  }
  return sum;
}
__device__ double length(const double* row, int n) { return sqrt(products(row, row, n).own); }

__global__ void __launch_bounds__(kThreads) orthogonal_kernel(OrthogonalFeaturesArguments a) {
  __shared__ double lengths[kOrthogonalMaxWidth];
  auto* g = dynamic_shared<double>();  // [n, P]
  const int P = static_cast<int>(a.width), lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * P;
  const int n = a.count - first < P ? static_cast<int>(a.count - first) : P;
  const uint64_t stream = dropout_stream(a.site, a.step ? *a.step / a.period : a.draw);
  for (int i = static_cast<int>(threadIdx.x); i < n * P; i += kThreads) {
    g[i] = normal_number<double>(a.seed, stream, first * P + i);
  }
  __syncthreads();
  for (int i = warp; i < n; i += kWarps) {
    const double before = length(g + i * P, P);
    if (lane == 0) lengths[i] = before;
  }
  for (int i = 0; i < n; ++i) {
    __syncthreads();
    const double* q = g + i * P;
    for (int j = i + 1 + warp; j < n; j += kWarps) {
      double* row = g + j * P;
      const Products sums = products(q, row, P);
      const double along = sums.with / sums.own;
      for (int d = lane; d < P; d += kWarp) row[d] -= along * q[d];
    }
  }
  __syncthreads();
  for (int i = warp; i < n; i += kWarps) {
    const double* row = g + i * P;
    const double scale = lengths[i] / length(row, P);
    for (int d = lane; d < P; d += kWarp) a.out[(first + i) * P + d] = row[d] * scale;
  }
}

int orthogonal_launch(const OrthogonalFeaturesArguments& a, CudaStream stream) {
  if (a.count == 0) return 0;
  if (a.width < 1 || a.width > kOrthogonalMaxWidth) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>((a.count + a.width - 1) / a.width);
  start_kernel(orthogonal_kernel,
               {dim3(blocks), dim3(kThreads), static_cast<cudaStream_t>(stream),
                static_cast<size_t>(a.width * a.width) * sizeof(double)},
               a);
  return cudaGetLastError();
}

const bool registered = (orthogonal_features_cuda = orthogonal_launch, true);

}  // namespace
}  // namespace lra
