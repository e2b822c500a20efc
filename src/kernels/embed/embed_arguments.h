// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

// Parameters are float where activations are bfloat16 or float, double where they are double.
struct EmbedArguments {
  const int32_t* tokens;  // [T]
  const int64_t* slots;   // [T]
  const void* table;      // [V, D]
  const void* cls;        // [D] or null
  const void* positions;  // [M, D] or null
  void* out;              // [T, D]
  int64_t T, D, V;
  DropoutDraw draw;
  int element;  // bytes of an activation: 2 bfloat16, 4 float, 8 double
};
extern CudaLauncher<EmbedArguments> embed_forward_cuda;

// Gradients are added to what is there; null where none is wanted.
struct EmbedGradientArguments {
  const int32_t* tokens;             // [T]
  const int32_t *offsets, *lengths;  // [B + 1], [B]
  const void* dy;                    // [T, D]
  void* d_table;                     // [V, D]
  void* d_cls;                       // [D]
  void* d_positions;                 // [M, D]
  void* partial;                     // [parts, V + 1, D] in the parameters' type; unused where parts = 0
  int64_t T, D, V, B;
  int64_t places;  // rows of d_positions that a position can have
  int64_t parts;   // partial sums of the table, embed_parts(…)
  DropoutDraw draw;
  int element;
};
extern CudaLauncher<EmbedGradientArguments> embed_backward_cuda;

// Vocabularies (with CLS) of this size have their sums in shared memory, 256 bytes for every id.
inline constexpr int64_t kEmbedFastIds = 512;

inline int64_t embed_slice(int element) { return element == 8 ? 32 : 64; }  // columns of one warp

// In how many parts the positions are summed on CUDA, 0 for large vocabularies: about as many warps as a
// large device has room for at once, and a function of sizes alone, so that a sum is the same on every
// device.
inline int64_t embed_parts(int64_t T, int64_t D, int64_t V, int element) {
  if (V + 1 > kEmbedFastIds) return 0;
  constexpr int64_t kProcessors = 132, kSharedBytes = 200 * 1024, kRows = 128;
  const int64_t fit = kSharedBytes / ((V + 1) * 256 + 1024), warps = fit < 1 ? 1 : fit > 8 ? 8 : fit;
  const int64_t slices = (D + embed_slice(element) - 1) / embed_slice(element);
  const int64_t most = (T + kRows - 1) / kRows, parts = kProcessors * warps / slices;
  return parts < 1 ? 1 : parts < most ? parts : most;
}

}  // namespace lra
