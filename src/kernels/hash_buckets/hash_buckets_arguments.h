// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct HashBucketsArguments {
  const void* q;                     // head h of position t: P elements from t·stride + h·P on
  const void* matrix;                // [rounds, columns, P], float, or double where q is
  const int32_t *offsets, *lengths;  // [rows + 1], [rows]
  int32_t* buckets;                  // [rounds·heads, positions]
  void* parts;  // scratch, [rounds, 3, columns, hash_product_width()] of bfloat16, or null
  int64_t positions, stride;
  int32_t rows, heads, width, rounds, columns, chunk;
  int element;  // bytes of an element of q: 2 bfloat16, 4 float, 8 double
};

struct HashMatrixArguments {
  void* out;  // [rounds, columns, width], float or double
  int32_t rounds, columns, width;
  uint64_t site, seed;
  const int64_t* step;  // one number on the device
  int element;
};

// The number at (round, column, place) is normal_noise of (round·P + place)·kHashMostColumns + column.
inline constexpr int64_t kHashMostColumns = 1 << 20;

extern CudaLauncher<HashBucketsArguments> hash_buckets_cuda;
extern CudaLauncher<HashMatrixArguments> hash_matrix_cuda;

// A warp's 32 threads are 8 × 4: threads below each other have different positions, those side by side
// different columns.
inline constexpr int kHashThreads = 128, kHashWarps = kHashThreads / 32;
inline constexpr int kHashDown = 8, kHashAcross = 4;
inline constexpr int kHashEach = 9;  // columns of a thread: 4096 positions and CLS have 65 = 2 · 36 − 7
inline constexpr int kHashTile = kHashAcross * kHashEach;  // columns at a time
inline constexpr int kHashSlice = 64;                      // elements of them at a time
// Rows of shared memory lie 4 banks (of 4 bytes) apart from the next.
inline constexpr int kHashMatrixPitch = kHashSlice + 4;
inline int64_t hash_vector_pitch(int64_t width) { return (width + 7) / 8 * 8 + 4; }

inline int64_t hash_shared_bytes(int vectors, int64_t width, int element) {
  const int64_t positions = int64_t{kHashWarps} * kHashDown * vectors;
  return (int64_t{kHashTile} * kHashMatrixPitch + positions * hash_vector_pitch(width)) *
         (element == 8 ? 8 : 4);
}

// Vectors of a thread: as many as leave room for other blocks. 0: too wide for the kernel.
inline int hash_vectors(int64_t width, int element) {
  if (hash_shared_bytes(4, width, element) <= 80 * 1024) return 4;
  if (hash_shared_bytes(2, width, element) <= 96 * 1024) return 2;
  if (hash_shared_bytes(1, width, element) <= 96 * 1024) return 1;
  return 0;
}

// To what width vectors are filled up on tensor cores; 0: they have products outside of them.
inline int64_t hash_product_width(int64_t width, int element) {
  if (element != 2 || width % 2 != 0 || width > 128) return 0;
  return width <= 32 ? 32 : width <= 64 ? 64 : 128;
}

}  // namespace lra
