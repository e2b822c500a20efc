// CUDA side of dropout: a thread makes one Philox block and handles its 8 neighbouring elements.
#include <cuda_bf16.h>

#include "base/cuda_start.cuh"
#include "kernels/dropout/dropout_arguments.h"

namespace lra {
namespace {

template <class T>
__device__ T scaled(T x, float scale) {
  return static_cast<T>(static_cast<float>(x) * scale);
}
template <>
__device__ double scaled(double x, float scale) {
  return x * static_cast<double>(scale);
}

template <class T>
__global__ void dropout_kernel(const T* __restrict__ in, T* __restrict__ out, int64_t positions,
                               int64_t width, DropoutDraw draw) {
  const int64_t blocks = (width + 7) / 8;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= positions * blocks) return;
  const int64_t r = thread / blocks, b = thread % blocks;
  const uint64_t first = dropout_position(draw.slots[r], width);
  const PhiloxBlock words = dropout_block(draw.seed, dropout_stream(draw.site, *draw.step), first / 8 + b);
  const int64_t end = width - b * 8 < 8 ? width - b * 8 : 8;
  const T* source = in + r * width + b * 8;
  T* target = out + r * width + b * 8;
  for (int64_t i = 0; i < end; ++i) {
    const bool kept = dropout_bits(words, static_cast<int>(i)) >= draw.rate.threshold;
    target[i] = kept ? scaled(source[i], draw.rate.scale) : static_cast<T>(0.f);
  }
}

template <class T>
void start(const DropoutArguments& a, CudaStream stream) {
  const int64_t threads = a.positions * ((a.width + 7) / 8);
  if (threads == 0) return;
  constexpr int kBlock = 256;
  const auto grid = static_cast<unsigned>((threads + kBlock - 1) / kBlock);
  start_kernel(dropout_kernel<T>, {grid, kBlock, static_cast<cudaStream_t>(stream)},
               static_cast<const T*>(a.in), static_cast<T*>(a.out), a.positions, a.width, a.draw);
}

int dropout_launch(const DropoutArguments& a, CudaStream stream) {
  if (a.element == 2) start<__nv_bfloat16>(a, stream);
  if (a.element == 4) start<float>(a, stream);
  if (a.element == 8) start<double>(a, stream);
  return cudaGetLastError();
}

const bool registered = (dropout_cuda = dropout_launch, true);

}  // namespace
}  // namespace lra
