// CUDA side of hash_matrix (hash_buckets.h): a thread has a number.
#include "base/cuda_start.cuh"
#include "kernels/hash_buckets/hash_buckets_arguments.h"
#include "kernels/noise/noise.cuh"

namespace lra {
namespace {

constexpr int kThreads = 256;

template <class A>
__global__ void __launch_bounds__(kThreads) matrix_kernel(HashMatrixArguments a) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = at / a.width, place = at - row * a.width, round = row / a.columns,
                column = row - round * a.columns;
  if (round >= a.rounds) return;
  const uint64_t stream = dropout_stream(a.site, *a.step);
  const int64_t index = (round * a.width + place) * kHashMostColumns + column;
  static_cast<A*>(a.out)[at] = normal_number<A>(a.seed, stream, index);
}

int matrix_launch(const HashMatrixArguments& a, CudaStream stream) {
  const int64_t numbers = int64_t{a.rounds} * a.columns * a.width;
  if (numbers == 0) return 0;
  const Launch on{dim3(static_cast<unsigned>((numbers + kThreads - 1) / kThreads)), dim3(kThreads),
                  static_cast<cudaStream_t>(stream)};
  a.element == 8 ? start_kernel(matrix_kernel<double>, on, a) : start_kernel(matrix_kernel<float>, on, a);
  return cudaGetLastError();
}

const bool registered = (hash_matrix_cuda = matrix_launch, true);

}  // namespace
}  // namespace lra
