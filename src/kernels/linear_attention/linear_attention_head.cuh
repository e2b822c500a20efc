// What the kernels whose warps have positions for their own share: the matrices of the block's row and head
// in shared memory, and the block's chunk of the row.
#pragma once
#include "kernels/linear_attention/linear_attention_tiles.cuh"

namespace lra {

// Sums over keys, or their gradients.
template <class P>
struct HeadState {
  const Bf16 *omega, *sums;  // [Mp, kStride]
  const float *z, *largest;  // [Mp]
  const float* mean;         // [Pp]
  Bf16* rest;                // what lies behind, on a boundary of 16 bytes

  static constexpr size_t bytes(int features) {
    return (P::kSoftmax ? 2 : 1) * static_cast<size_t>(features) *
               (P::kStride * sizeof(Bf16) + sizeof(float)) +
           P::kWidth * sizeof(float);
  }

  // Begins to copy; complete after copy_async_wait and a barrier. Features that do not exist get `missing`
  // for their largest exponent.
  __device__ HeadState(const LinearAttentionArguments& a, int features, const void* all_sums,
                       const float* all_z, float missing)
      : omega(nullptr), largest(nullptr) {
    const int64_t head = static_cast<int64_t>(blockIdx.z) * a.heads + blockIdx.x;
    const int matrix = features * P::kStride;
    auto* at = dynamic_shared<Bf16>();
    const auto take = [&](const void* from, int elements) {
      copy_block(at, from, elements * static_cast<int>(sizeof(Bf16)));
      at += elements;
      return at - elements;
    };
    if constexpr (P::kSoftmax) {
      omega = take(a.projection, matrix);
      auto* own = reinterpret_cast<float*>(at);
      for (int m = static_cast<int>(threadIdx.x); m < features; m += static_cast<int>(blockDim.x)) {
        own[m] = m < a.features ? a.largest[head * features + m] : missing;
      }
      largest = own;
      at += 2 * features;
    }
    sums = take(static_cast<const Bf16*>(all_sums) + head * matrix, matrix);
    z = reinterpret_cast<const float*>(take(all_z + head * features, 2 * features));
    mean = reinterpret_cast<const float*>(take(a.mean + head * P::kWidth, 2 * P::kWidth));
    rest = at;
  }
};

// The block's positions: block (head, chunk, row).
struct Chunk {
  int64_t begin;
  int count;  // not over 0 where the row has no such chunk

  __device__ Chunk(const LinearAttentionArguments& a, const Span& span) {
    const int first = static_cast<int>(blockIdx.y) * static_cast<int>(a.chunk), left = span.length - first;
    begin = span.begin + first;
    count = left < a.chunk ? left : static_cast<int>(a.chunk);
  }
};

}  // namespace lra
