// CUDA side of hash_matrix (hash_buckets.h): a thread has a number.
#include "base/cuda_start.cuh"
#include "kernels/dropout/bits.h"
#include "kernels/hash_buckets/hash_buckets_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 256;
constexpr double kPi = 3.14159265358979323846;

// The numbers of kernels/noise/noise.h.
template <class A>
__device__ A uniform(const HashMatrixArguments& a, uint64_t stream, int64_t index) {
  const uint32_t word = philox(a.seed, stream, static_cast<uint64_t>(index)).word[0];
  return (static_cast<A>(word >> 9) + A(0.5)) * A(1.0 / 8388608.0);
}

template <class A>
__global__ void __launch_bounds__(kThreads) matrix_kernel(HashMatrixArguments a) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = at / a.width, place = at - row * a.width, round = row / a.columns,
                column = row - round * a.columns;
  if (round >= a.rounds) return;
  const uint64_t stream = dropout_stream(a.site, *a.step);
  const int64_t index = (round * a.width + place) * kHashMostColumns + column;
  const A u = uniform<A>(a, stream, 2 * index), v = uniform<A>(a, stream, 2 * index + 1);
  static_cast<A*>(a.out)[at] = sqrt(A(-2) * log(u)) * cos(A(2 * kPi) * v);
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
