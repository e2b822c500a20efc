// What the CUDA kernels of interval_attention are given: raw pointers and sizes, so that CUDA sources see no
// torch header. Data is bfloat16; statistics and sums are float, places int32. Letters as in
// interval_attention.h: B rows, H heads, R rounds, P the width of a head, G blocks of a row, S slots.
#pragma once
#include "base/cuda_launch.h"
#include "kernels/dropout/bits.h"

namespace lra {

inline constexpr int kIntervalTile = 64;      // queries and keys that a block of threads works on at a time
inline constexpr int kIntervalThreads = 128;  // of such a block
inline constexpr int kIntervalMostSlots = 72, kIntervalMostGroups = 4;
inline constexpr int64_t kIntervalMostWidth = 128;
inline constexpr int64_t kIntervalMostKeyTiles = 8192;  // of a row

// Widths that there are kernels for; others are filled up with zeros.
inline int interval_kernel_width(int64_t P) {
  for (const int width : {16, 32, 48, 64, 96}) {
    if (P <= width) return width;
  }
  return static_cast<int>(kIntervalMostWidth);
}

// Floats that a block of threads leaves of a piece of its work, for whoever puts the pieces together: of
// queries (sums, and for the forward pass the softmax's), of keys.
inline int64_t interval_query_piece(int64_t P) {
  return kIntervalThreads * (interval_kernel_width(P) / 2 + 4);
}
inline int64_t interval_key_piece(int64_t P) { return kIntervalThreads * interval_kernel_width(P); }

struct IntervalSlot {
  int32_t column;
  int16_t banded, side;
};

// An IntervalBlocks.
struct IntervalGroup {
  const int32_t *first, *last;  // [B, G]
  const int32_t *begin, *end;   // [B, table_heads, G, S]
  int32_t blocks, slots, table_heads;
  int32_t tiles;   // of queries in a block
  int32_t pieces;  // at most so many blocks of threads share the keys of a tile of queries
  int32_t low, high;
  IntervalSlot slot[kIntervalMostSlots];
};

// What both passes read.
struct IntervalData {
  const void *qkv, *side;        // [T, 3, H, P]; [B·pitch, 2, H, P] or null
  const int32_t* side_at;        // [B·pitch] or null
  const int32_t *order, *least;  // [R·H, T] or null
  const int32_t *offsets, *lengths;
  int64_t positions, rows, side_pitch;
  int32_t heads, rounds, width;
  float scale, self_penalty;  // self_penalty 0: none
  DropoutDraw draw;
};

struct IntervalForwardArguments {
  IntervalData data;
  IntervalGroup group[kIntervalMostGroups];
  int groups;
  void* out;         // [T, R·H, P], overwritten, with zeros where there is no query
  float* lse;        // [T, R·H], zeros before
  float* pieces;     // scratch: interval_query_piece() each
  int32_t* arrived;  // scratch: one for each tile of queries, zeros before and after
};

// The queries of one tile that see one interval of keys, of which a tile of keys has some.
struct alignas(16) IntervalHit {
  int32_t first, count;  // queries
  int32_t begin, end;    // keys
  int32_t shift;         // the weight of key j is in column shift + j
  int32_t low, high;     // the band; without one all there is
  int32_t banded;
};

// A share of the hits of a tile of keys: all of them, or a piece.
struct IntervalItem {
  int32_t tile, first_hit, hits;
  int32_t piece, pieces;
  int32_t slot;  // of the tile's first piece in the scratch of this row and head
};

// Which queries see the keys of a tile, for the keys at the positions or for the side keys. Tile m of a row
// is its keys lead + (m − 1)·width …, so that the keys before `lead` (CLS), which many see, are tile 0.
struct IntervalInverse {
  int32_t side;          // 0 or 1: which keys
  int32_t heads;         // of the tables: 1, or H where heads see different keys
  int32_t width, tiles;  // keys of a tile; tiles of a row
  int32_t lead_group;    // its first block says `lead`; −1: 0
  int32_t most_hits;     // of a row (and head)
  int32_t slots;         // pieces that a row and head have scratch for
  bool skips_unseen;     // no item for a tile without hits
  IntervalHit* hits;     // [B, heads, most_hits]
  uint32_t* spans;       // scratch [B, heads, entries]: first and last tile of each interval
  IntervalItem* items;   // [B, heads, tiles + slots]
  int32_t* item_count;   // [B, heads]
  int32_t* hit_count;    // [B, heads, tiles]
  int64_t entries;       // intervals of a row, for each tile of queries
};

struct IntervalBackwardArguments {
  IntervalData data;
  IntervalGroup group[kIntervalMostGroups];
  int groups;
  const void *out, *d_out;   // [T, R·H, P]
  const float *lse, *d_lse;  // [T, R·H]; d_lse null: zero
  void *d_qkv, *d_side;      // overwritten; d_side null where there are no side keys of their own
  float* delta;              // scratch [T, R·H]
  float* side_sums;          // scratch [B·pitch, 2, H, P] where side keys are positions, else null
  float* pieces;
  int32_t* arrived;
  IntervalInverse own, side;  // side.tiles 0: there are no side keys
};

extern CudaLauncher<IntervalForwardArguments> interval_forward_cuda;
extern CudaLauncher<IntervalBackwardArguments> interval_backward_cuda;

}  // namespace lra
