// What the kernel is given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct BucketOrderArguments {
  const int32_t *buckets, *offsets;  // [lists, positions]; [rows + 1]
  int32_t *order, *least;            // [lists, positions] both; least may be null
  int64_t positions, lists;
  int32_t rows, buckets_of_row;
};

extern CudaLauncher<BucketOrderArguments> bucket_order_cuda;

// Shared memory holds a counter for each bucket and warp, and the buckets' beginnings.
inline int64_t bucket_order_bytes(int warps, int64_t buckets) { return (warps + 1) * buckets * 4; }

// Warps of a block; 0: too many buckets for the kernel.
inline int bucket_order_warps(int64_t buckets) {
  for (int warps = 16; warps > 0; warps /= 2) {
    if (bucket_order_bytes(warps, buckets) <= 96 * 1024) return warps;
  }
  return 0;
}

}  // namespace lra
