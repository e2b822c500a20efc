// What the CUDA kernels of linear_attention.h are given: raw pointers and sizes, so that CUDA sources see no
// torch header. Activations are bfloat16; sums and statistics are float.
//
// The forward pass is two steps, the backward pass three; a step that ends with sums is two launches:
//
//   key_sums        k, v → sums, z, largest, mean       (S, z of each row and head)
//   queries         q → out, normaliser
//   query_gradient  q, out, d_out → d_q, delta
//   query_sums      q, d_out → d_sums, d_z              (dS, dz)
//   key_gradient    k, v → d_k, d_v
//
// Sums over positions are made in chunks of a row, one after another in `partial`, and added up in order:
// no atomics, the same bits every time.
//
// What is kept of S is S − z meanᵀ with mean = Σ_m S_m / Σ_m z_m, which is put back afterwards:
//
//   out_i = mean · (1 − ε/den_i) + (S − z meanᵀ)ᵀ φ(q_i) / den_i
//   dφ(q_i) = ((S − z meanᵀ) d_out_i − δ_i z) / den_i,    δ_i = d_out_i·(out_i − mean)
//
// The features' averages of v differ little from each other. A rounded S would lose these differences, of
// which the gradient of q is made; the rounded S − z meanᵀ does not.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

inline constexpr int64_t kLinearMaxWidth = 128;  // head width P, a multiple of 8
inline constexpr int64_t kLinearPadding = 8;     // elements behind every row of a padded matrix

struct LinearAttentionArguments {
  const void *q, *k, *v;     // of the first position and head; heads lie side by side
  int64_t q_stride, stride;  // elements from one position to the next; of k and v `stride`
  const int32_t *offsets, *lengths;
  int64_t rows, positions, longest;  // of keys
  int64_t queries;                   // positions of q
  bool first;                        // q is [rows, H, P]: one query a row
  int64_t heads, width, features;    // H, P, M
  int map;                           // FeatureMap
  const void* projection;            // [Mp, Pp + 8], zeros beyond [M, P]; softmax only
  int64_t chunk;                     // positions a block works on

  void* sums;  // bfloat16 [B, H, Mp, Pp + 8]: S − z meanᵀ; z in columns Pp and Pp + 1, as a sum of two
  float *z, *largest;  // [B, H, Mp]; largest: exponent of two taken out of a feature
  float* mean;         // [B, H, Pp]
  float* normaliser;   // [H, queries]; softmax: log2 of the denominator; else 1 / denominator
  float *partial, *partial_z, *partial_largest;  // [slots, H, Mp, Pp], [slots, H, Mp] twice

  void* out;              // [queries, H, P]
  const void* d_out;      // the same
  void *d_q, *d_k, *d_v;  // laid out as q, k and v
  void* d_sums;           // bfloat16 [B, H, Mp, Pp + 8]
  float *d_z, *delta;     // [B, H, Mp], [H, queries]
};

extern CudaLauncher<LinearAttentionArguments> linear_attention_key_sums_cuda, linear_attention_queries_cuda,
    linear_attention_query_gradient_cuda, linear_attention_query_sums_cuda,
    linear_attention_key_gradient_cuda;

// Most features of the softmax map: shared memory holds two matrices [M, P].
inline constexpr int64_t linear_max_features(int64_t width) { return width <= 64 ? 256 : 128; }

// Mp and Pp: what the kernels compute with.
inline int64_t linear_padded_width(int64_t width) { return width <= 64 ? (width + 15) / 16 * 16 : 128; }
inline int64_t linear_padded_features(bool softmax, int64_t features, int64_t width) {
  return softmax ? (features + 31) / 32 * 32 : linear_padded_width(width);
}

// Row b's chunks are the slots offsets[b] / chunk + b and following: never those of another row.
inline int64_t linear_slots(int64_t positions, int64_t rows, int64_t chunk) {
  return positions / chunk + rows;
}

}  // namespace lra
