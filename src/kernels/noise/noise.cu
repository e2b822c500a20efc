// CUDA side of noise.h: the words; what is made of them are a few tensor operations.
#include "base/cuda_start.cuh"
#include "kernels/dropout/bits.h"
#include "kernels/noise/noise_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void noise_words_kernel(NoiseWords a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.count) return;
  const uint64_t stream = dropout_stream(a.site, *a.step);
  a.words[i] = philox(a.seed, stream, static_cast<uint64_t>(a.index[i])).word[0];
}

int noise_words_launch(const NoiseWords& a, CudaStream stream) {
  if (a.count == 0) return 0;
  const auto blocks = static_cast<unsigned>((a.count + kThreads - 1) / kThreads);
  start_kernel(noise_words_kernel, {dim3(blocks), dim3(kThreads), static_cast<cudaStream_t>(stream)}, a);
  return cudaGetLastError();
}

const bool registered = (noise_words_cuda = noise_words_launch, true);

}  // namespace
}  // namespace lra
