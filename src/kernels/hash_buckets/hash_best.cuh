// What the kernels of hash_buckets share: which score is the best, and whose it is.
#pragma once
#include "base/cuda_start.cuh"
#include "kernels/hash_buckets/hash_buckets_arguments.h"

namespace lra {

// Orders scores by their size without the sign, and of two that differ in it alone the positive one first:
// the order of the buckets. Of a score in its last bit: whether it is positive.
__device__ inline uint32_t rank_of(float score) {
  const uint32_t bits = __float_as_uint(score);
  return (bits << 1 | bits >> 31) ^ 1u;
}
__device__ inline uint64_t rank_of(double score) {
  const auto bits = static_cast<uint64_t>(static_cast<uint32_t>(__double2hiint(score))) << 32 |
                    static_cast<uint32_t>(__double2loint(score));
  return (bits << 1 | bits >> 63) ^ 1u;
}

// The best score of a vector: the first column of the highest rank. To begin with a zero, which is what the
// first column may have at least.
template <class A>
struct HashBest {
  decltype(rank_of(A())) rank = 1;
  int column = 0;
};

// Where a position is: its row, and how many columns count; 0 outside of the rows.
struct HashPlace {
  int row, half;
};
__device__ inline HashPlace place_of(const HashBucketsArguments& a, int64_t position) {
  int row = 0,
      last = a.rows;  // the row is one of these; the last is what is left over
  while (row < last) {
    const int middle = (row + last) / 2;
    if (a.offsets[middle + 1] <= position) {
      row = middle + 1;
    } else {
      last = middle;
    }
  }
  if (row >= a.rows) return {a.rows, 0};
  const int length = a.lengths[row];
  if (position - a.offsets[row] >= length) return {row, 0};
  const int chunks = (length - 1) / a.chunk + 1;
  return {row, chunks < a.columns ? chunks : a.columns};
}

// A round's result for the vectors that a thread has together with the 3 beside it, whose best columns may be
// others: those at row, row + kDown, … of the positions from `first` on.
struct HashResult {
  int round;
  int64_t first;
  int row;
};
template <int kDown, int kVectors, class A>
__device__ inline void store_buckets(const HashBucketsArguments& a, const HashResult& at,
                                     HashBest<A> (&best)[kVectors], const int (&half)[kVectors],
                                     const HashPlace* places) {
  const int across = static_cast<int>(threadIdx.x) % 4;
  int32_t* out = a.buckets + (int64_t{at.round} * a.heads + blockIdx.y) * a.positions;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int o = 1; o < 4; o *= 2) {
      const HashBest<A> other{__shfl_xor_sync(0xffffffffu, best[v].rank, o),
                              __shfl_xor_sync(0xffffffffu, best[v].column, o)};
      const bool before = other.rank == best[v].rank && other.column < best[v].column;
      if (other.rank > best[v].rank || before) best[v] = other;
    }
    const int row = at.row + v * kDown;
    const int positive = best[v].column, negative = positive + half[v];
    const int bucket = half[v] == 0 ? 2 * a.columns : best[v].rank % 2 == 1 ? positive : negative;
    if (across == v % 4 && at.first + row < a.positions) {
      out[at.first + row] = places[row].row * (2 * a.columns + 1) + bucket;
    }
  }
}

// hash_products.cu
bool hash_products_serve(const HashBucketsArguments& a);
int start_hash_products(const HashBucketsArguments& a, cudaStream_t stream);

}  // namespace lra
