#include "base/cuda_start.cuh"
#include "kernels/attention/attention_cudnn.h"
#include "kernels/dropout/bits.h"

namespace lra {
namespace {

constexpr int kThreads = 128;

__global__ __launch_bounds__(kThreads) void attention_numbers_kernel(AttentionNumbers a) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i == 0 && a.draw) {
    const PhiloxBlock block = philox<10>(a.seed, dropout_stream(a.site, *a.step), 0);
    a.draw[0] = static_cast<int64_t>((uint64_t{block.word[1]} << 32 | block.word[0]) >> 1);
    a.draw[2] = 0;
  }
  if (!a.offsets || i > a.rows) return;
  const int64_t pitch = attention_numbers_pitch(a.rows);
  const auto at = int64_t{a.offsets[i]}, positions = a.heads * a.width;
  a.numbers[i] = static_cast<int32_t>(3 * positions * at);
  a.numbers[pitch + i] = static_cast<int32_t>(positions * at);
  a.numbers[2 * pitch + i] = static_cast<int32_t>(a.heads * at);
  if (i < a.rows) a.numbers[3 * pitch + i] = a.offsets[i + 1] - a.offsets[i];
}

int attention_numbers_launch(const AttentionNumbers& a, CudaStream s) {
  const auto blocks = static_cast<unsigned>((a.rows + kThreads) / kThreads);
  start_kernel(attention_numbers_kernel, {blocks, kThreads, static_cast<cudaStream_t>(s)}, a);
  return cudaGetLastError();
}

const bool registered = (attention_numbers_cuda = attention_numbers_launch, true);

}  // namespace
}  // namespace lra
