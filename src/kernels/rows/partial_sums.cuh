// The second half of a sum over positions without atomics: every block of the first kernel has left its own
// sums, here they are added up, always in the same order.
#pragma once
#include <cstdint>

#include "base/cuda_start.cuh"
#include "kernels/rows/partial_sums_arguments.h"

namespace lra {

// Σ_i at(i), i = 0 … count − 1, for each of the kColumns columns of a block of (kColumns, kRows) threads,
// which must all come here, once. Thread (x, y) takes every kRows-th i, from y on; thread (x, 0) is given the
// sum.
template <int kColumns, int kRows, class A, class At>
__device__ inline A block_sum(int64_t count, const At& at) {
  constexpr int kAtOnce = 9;  // loads in flight: with 64 rows all of the at most 528 there are
  constexpr int kWarps = kColumns * kRows / 32;
  __shared__ A sums[kWarps][kColumns];
  A sum = 0;
  for (int64_t first = threadIdx.y; first < count; first += kAtOnce * kRows) {
    A values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      values[k] = first + k * kRows < count ? at(first + k * kRows) : A(0);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum += values[k];
  }
#pragma unroll
  for (int offset = kColumns; offset < 32; offset *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  const int thread = static_cast<int>(threadIdx.y) * kColumns + static_cast<int>(threadIdx.x);
  if (thread % 32 < kColumns) sums[thread / 32][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0) return 0;
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) sum += sums[warp][threadIdx.x];
  return sum;
}

// Few columns (a sector of memory) and many rows: there are more blocks to read from than columns to sum.
inline constexpr int kSumColumns = kPartialSumsColumns, kSumRows = 64;

}  // namespace lra
