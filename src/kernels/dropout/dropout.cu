// CUDA side of dropout: a thread makes one Philox block and handles its 8 neighbouring elements.
#include <cuda_bf16.h>

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
__global__ void dropout_kernel(const T* __restrict__ in, T* __restrict__ out, int64_t rows, int64_t length,
                               int64_t width, int64_t first_row, uint64_t seed, uint64_t site,
                               const int64_t* step, uint32_t threshold, float scale) {
  const int64_t blocks = (width + 7) / 8;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= rows * length * blocks) return;
  const int64_t r = thread / blocks, b = thread % blocks;
  const uint64_t first = dropout_position(first_row + r / length, r % length, width);
  const PhiloxBlock words = philox(seed, dropout_stream(site, *step), first / 8 + b);
  const int64_t end = width - b * 8 < 8 ? width - b * 8 : 8;
  const T* source = in + r * width + b * 8;
  T* target = out + r * width + b * 8;
  for (int64_t i = 0; i < end; ++i) {
    const bool kept = dropout_bits(words, static_cast<int>(i)) >= threshold;
    target[i] = kept ? scaled(source[i], scale) : static_cast<T>(0.f);
  }
}

template <class T>
void launch(const DropoutArguments& a, void* stream) {
  const int64_t threads = a.rows * a.length * ((a.width + 7) / 8);
  if (threads == 0) return;
  constexpr int kBlock = 256;
  const auto grid = static_cast<unsigned>((threads + kBlock - 1) / kBlock);
  dropout_kernel<T><<<grid, kBlock, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(a.in), static_cast<T*>(a.out), a.rows, a.length, a.width, a.first_row, a.seed,
      a.site, a.step, a.rate.threshold, a.rate.scale);
}

}  // namespace

void dropout_launch(const DropoutArguments& a, void* stream) {
  if (a.element == 2) launch<__nv_bfloat16>(a, stream);
  if (a.element == 4) launch<float>(a, stream);
  if (a.element == 8) launch<double>(a, stream);
}

}  // namespace lra
