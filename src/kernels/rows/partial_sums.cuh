// The second half of a sum over positions without atomics: every block of the first kernel has left its own
// sums, here they are added up, always in the same order.
#pragma once
#include <cstdint>

namespace lra {

template <class A>
struct PartialSums {
  const A* partial;         // [blocks, outputs, width]
  int64_t blocks, outputs;  // at most 3 outputs
  int64_t width;
  A* into[3];  // [width] each, added to; null: not wanted
};

inline constexpr int kSumColumns = 32, kSumRows = 16;  // threads of a block

// into[o][c] += Σ_b partial[b][o][c]; block (x, y): 32 columns of output y
template <class A>
__global__ void partial_sums_kernel(PartialSums<A> s) {
  __shared__ A sums[kSumRows][kSumColumns];
  A* into = blockIdx.y == 0 ? s.into[0] : blockIdx.y == 1 ? s.into[1] : s.into[2];
  if (!into) return;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  A sum = 0;
  if (column < s.width) {
    const A* from = s.partial + blockIdx.y * s.width + column;
#pragma unroll 8
    for (int64_t b = threadIdx.y; b < s.blocks; b += kSumRows) sum += from[b * s.outputs * s.width];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= s.width) return;
  for (int r = 1; r < kSumRows; ++r) sum += sums[r][threadIdx.x];
  into[column] += sum;
}

template <class A>
void start_partial_sums(const PartialSums<A>& s, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((s.width + kSumColumns - 1) / kSumColumns),
                  static_cast<unsigned>(s.outputs));
  partial_sums_kernel<A><<<grid, dim3(kSumColumns, kSumRows), 0, stream>>>(s);
}

}  // namespace lra
