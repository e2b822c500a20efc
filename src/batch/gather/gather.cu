// CUDA side of the device source (device_source.h), two launches: one block lays out the rows, then one
// thread for each position copies its token.
#include "base/cuda_start.cuh"
#include "batch/gather/gather_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

// The sum of x over this and all earlier threads of the block.
__device__ int64_t inclusive_sum(int64_t x, int64_t* warps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int d = 1; d < kWarp; d *= 2) {
    const int64_t earlier = __shfl_up_sync(0xffffffffu, x, d);
    if (lane >= d) x += earlier;
  }
  if (lane == kWarp - 1) warps[warp] = x;
  __syncthreads();
  for (int w = 0; w < warp; ++w) x += warps[w];
  return x;
}

// The row's example: where it begins, its label; returns the row's length, CLS included.
__device__ int64_t choose_example(const GatherArguments& a, int64_t row) {
  const int64_t i = example_at(*a.step * a.batch + a.first_row + row, a.examples, a.seed, a.frozen);
  const int64_t start = a.offsets[i], length = a.offsets[i + 1] - start + (a.cls ? 1 : 0);
  a.starts[row] = start;
  a.out_lengths[row] = static_cast<int32_t>(length);
  if (a.labels) a.out_labels[row] = a.labels[i];
  return length;
}

__global__ void __launch_bounds__(kThreads) rows_kernel(GatherArguments a) {
  __shared__ int64_t warps[kWarps];
  __shared__ int64_t filled;  // positions of the rows before this round
  if (threadIdx.x == 0) {
    filled = 0;
    a.out_offsets[0] = 0;
  }
  for (int64_t first = 0; first < a.rows; first += kThreads) {
    const int64_t row = first + threadIdx.x;
    const int64_t length = row < a.rows ? choose_example(a, row) : 0;
    const int64_t sum = inclusive_sum(length, warps);  // its barrier also shows `filled` to everybody
    const int64_t end = filled + sum;
    if (row < a.rows) a.out_offsets[row + 1] = static_cast<int32_t>(end);
    __syncthreads();
    if (threadIdx.x == kThreads - 1) filled = end;
  }
  __syncthreads();
  // Whoever follows would write beyond the buffer.
  if (filled > a.capacity) __trap();
  for (int64_t i = threadIdx.x; i < a.tail_rows; i += kThreads) {
    const int64_t end = filled + (i + 1) * a.tail_row_length;
    const bool last = i + 1 == a.tail_rows || end > a.capacity;
    a.out_offsets[a.rows + 1 + i] = static_cast<int32_t>(last ? a.capacity : end);
  }
}

// The row that position t lies in, for t before the end of the last.
__device__ int64_t row_of(const GatherArguments& a, int64_t t) {
  int64_t low = 0, high = a.rows;  // offsets[low] ≤ t < offsets[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (a.out_offsets[middle] <= t) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ int32_t read_number(const void* numbers, int bytes, int64_t i) {
  return bytes == 1 ? static_cast<const uint8_t*>(numbers)[i] : static_cast<const uint16_t*>(numbers)[i];
}

__global__ void __launch_bounds__(kThreads) tokens_kernel(GatherArguments a) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= a.capacity) return;
  if (t >= a.out_offsets[a.rows]) {  // names that no row of the batch has
    a.out_tokens[t] = 0;
    a.out_slots[t] = a.batch << 24;
    return;
  }
  const int64_t row = row_of(a, t), lead = a.cls ? 1 : 0;
  int64_t place = t - a.out_offsets[row];
  const bool is_cls = place < lead;
  const int64_t from = a.starts[row] + place - lead;
  a.out_tokens[t] = is_cls ? a.cls_id : read_number(a.tokens, a.token_bytes, from);
  if (a.places && !is_cls) place = read_number(a.places, a.place_bytes, from) + lead;
  a.out_slots[t] = ((a.first_row + row) << 24) + place;
}

int gather_launch(const GatherArguments& a, CudaStream stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  start_kernel(rows_kernel, {1, kThreads, on}, a);
  const auto blocks = static_cast<unsigned>((a.capacity + kThreads - 1) / kThreads);
  if (blocks > 0) start_kernel(tokens_kernel, {blocks, kThreads, on}, a);
  return cudaGetLastError();
}

const bool registered = (gather_cuda = gather_launch, true);

}  // namespace
}  // namespace lra
