// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

// Parameters are float where activations are bfloat16 or float, double where they are double.
struct EmbedArguments {
  const int32_t* tokens;   // [T]
  const int64_t* slots;    // [T]
  const int32_t* offsets;  // [B + 1]
  const void* table;       // [V, D]
  const void* cls;         // [D] or null
  const void* positions;   // [M, D] or null
  void* out;               // [T, D]
  int64_t T, D, V, B, M;
  int64_t places;  // no row takes up more positions
  DropoutDraw draw;
  int element;  // bytes of an activation: 2 bfloat16, 4 float, 8 double
};
extern CudaLauncher<EmbedArguments> embed_forward_cuda;

// Gradients are added to what is there; null where none is wanted.
struct EmbedGradientArguments {
  const int32_t* tokens;             // [T]
  const int32_t *offsets, *lengths;  // [B + 1], [B]
  const int64_t* slots;              // [T]
  const void* dy;                    // [T, D]
  void* d_table;                     // [V, D]
  void* d_cls;                       // [D]
  void* d_positions;                 // [M, D]
  void* partial;  // in the parameters' type; CPU: [parts, V + 1, D], CUDA: EmbedPlan::partial_size
  int32_t* sort;  // CUDA: EmbedPlan::sort_size
  int64_t T, D, V, B;
  int64_t places;  // rows of d_positions that a position can have
  int64_t parts;   // CPU: private tables
  DropoutDraw draw;
  int element;
};
extern CudaLauncher<EmbedGradientArguments> embed_backward_cuda;

// How CUDA sums the gradient of the table: positions are sorted by token, then summed in pieces. All of it
// follows from sizes alone, so that a sum is the same on every device.
struct EmbedPlan {
  // The sort: a pass for every kDigit bits of an id; a block has a chunk of positions.
  static constexpr int kDigit = 9, kBins = 1 << kDigit;
  static constexpr int64_t kTile = 2048, kMostChunks = 128;
  // The sums: about as many threads as a large device holds, each with 8 columns of a piece.
  static constexpr int64_t kThreads = 80 * 1024, kLeast = 32;

  int64_t T, ids, octets, chunk, chunks, piece, pieces;
  int passes;

  EmbedPlan(int64_t positions, int64_t D, int64_t V)
      : T(positions), ids(V + 1), octets((D + 7) / 8), passes(1) {
    const int64_t tiles = over(T, kTile);
    chunk = kTile * over(tiles, kMostChunks);
    chunks = over(T, chunk);
    piece = over(T * octets, kThreads * 8) * 8;
    if (piece < kLeast) piece = kLeast;
    pieces = over(T, piece);
    while (ids > int64_t{1} << (kDigit * passes)) ++passes;
  }

  int64_t width() const { return octets * 8; }
  // T, what fills up the last piece, and what a thread reads ahead.
  int64_t records() const { return pieces * piece + 8; }
  int64_t sort_size() const { return (passes > 1 ? 2 : 1) * records() * 2 + chunks * kBins; }
  int64_t partial_size() const { return 2 * pieces * width(); }

 private:
  static int64_t over(int64_t n, int64_t each) { return (n + each - 1) / each; }
};

}  // namespace lra
