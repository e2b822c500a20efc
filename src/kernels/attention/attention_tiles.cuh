// What the kernels of attention_kernels.h share. A warpgroup has 64 rows of one kind (queries or keys) as
// left operands in registers and goes over tiles of 64 rows of the other kind in shared memory. Lane 4g + t
// of warp w has the sums of rows 16w + g and 16w + g + 8, in columns 8n + 2t and 8n + 2t + 1
// (kernels/rows/mma.cuh).
#pragma once
#include <cfloat>
#include <cmath>
#include <type_traits>

#include "base/cuda_start.cuh"
#include "kernels/attention/attention_kernels_arguments.h"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/mma.cuh"
#include "kernels/rows/octet.cuh"
#include "kernels/rows/quad.cuh"
#include "kernels/rows/wgmma.cuh"

namespace lra {
namespace attention_tiles {

using Bf16 = __nv_bfloat16;
using Scores = float[8][4];      // [64, 64] of a warpgroup
using Weights = uint32_t[4][4];  // likewise, in bf16
template <int kWidth>            // of heads, rounded up: columns beyond it are 0
using Sums = float[kWidth / 8][4];
template <int kWidth>
using Operand = uint32_t[kWidth / 16][4];

inline constexpr float kLog2E = 1.44269504088896f;
inline constexpr int kTile = kAttentionTile, kTileWidth = 64;
static_assert(kTile == kGroupRows, "a warpgroup has a tile of rows");
inline constexpr int kGroups = 2, kThreads = kGroups * kGroupThreads, kSpan = kGroups * kTile;

__device__ inline int this_lane() { return static_cast<int>(threadIdx.x) % 32; }
// The first of the lane's two rows among the block's; the other is 8 later.
__device__ inline int this_row() { return static_cast<int>(threadIdx.x) / 32 * 16 + this_lane() / 4; }

// kSpan positions of a row, for a block of threads.
struct Span {
  int start, length;  // the row begins at position `start`
  int first;          // where in the row
  int row;
};

// Span p of row b has the number offsets[b] / kSpan + b + p, so that numbers need no table: from one row to
// the next they rise by at least as many as it has.
__device__ inline Span find_span(const AttentionData& d, int number) {
  int low = 0, count = static_cast<int>(d.rows);  // the row is one of low … low + count − 1
  while (count > 1) {
    const int step = (count + 31) / 32, ahead = this_lane() * step, row = low + ahead;
    const bool begun = ahead < count && d.offsets[row] / kSpan + row <= number;
    const int last = __popc(__ballot_sync(kAllLanes, begun)) - 1;
    low += last * step;
    count = min(step, count - last * step);
  }
  const int start = d.offsets[low], length = d.offsets[low + 1] - start;
  return {start, length, (number - start / kSpan - low) * kSpan, low};
}
inline unsigned most_spans(const AttentionData& d) {
  return static_cast<unsigned>(d.positions / kSpan + d.rows);
}

// ---- two tensors' rows of one head, stage by stage in shared memory ----

struct HeadRows {
  Bf16* at;       // the row's first position
  int64_t pitch;  // from a position to the next
  int width;
};
// Of a tensor [T, parts, H, P]; it is as writable as it was.
__device__ inline HeadRows head_rows(const AttentionData& d, const void* tensor, int parts, int part,
                                     const Span& span, int h) {
  const int64_t pitch = int64_t{parts} * d.heads * d.width;
  auto* at = static_cast<Bf16*>(const_cast<void*>(tensor));
  return {at + span.start * pitch + (part * d.heads + h) * d.width, pitch, d.width};
}

template <int kRows>
struct Stage {
  Bf16 first[kRows * kTileWidth], second[kRows * kTileWidth];
};

// A thread's part of copying kRows rows: a piece of every kStep'th.
template <int kWidth, int kRows>
struct RowCopy {
  static constexpr int kPieces = kWidth > 32 ? 8 : kWidth / 8,
                       kStep = kThreads / kPieces < kRows ? kThreads / kPieces : kRows;
  static_assert(kStep % 8 == 0, "a thread's pieces lie alike in all of its rows");
  int row, column, to;

  __device__ RowCopy()
      : row(static_cast<int>(threadIdx.x) / kPieces),
        column(static_cast<int>(threadIdx.x) % kPieces * 8),
        to(swizzled(row, column)) {}

  // Begins to copy positions first, first + 1, …; zeros beyond the row's end, where nothing is read.
  __device__ void begin(Bf16* rows, const HeadRows& from, int first, int length) const {
    if (kStep * kPieces < kThreads && row >= kRows) return;
    const int left = column < from.width ? length - first - row : 0;  // positions, from the thread's first on
    const Bf16* at = from.at + first * from.pitch + (row * static_cast<int>(from.pitch) + column);
#pragma unroll
    for (int n = 0; n < kRows / kStep; ++n) {
      copy_async_or_zero<16>(rows + to + n * kStep * kTileWidth, at, n * kStep < left);
      at += kStep * from.pitch;
    }
  }
};

// Walks over the tiles of two tensors' rows [0, end), which come by stages of kRows. also(stage) begins to
// copy what else a stage has.
template <int kWidth, int kRows, int kBuffers, class Also>
struct TileWalk {
  static_assert(kBuffers > 2, "one is read, one comes, and some warp may still read the one before");
  static constexpr int kTiles = kRows / kTile;  // of a stage
  Stage<kRows> (&stages)[kBuffers];
  HeadRows first_rows, second_rows;
  int length, end;
  Also also;
  GroupTile place = group_tile(&stages);
  RowCopy<kWidth, kRows> copy = {};

  __device__ int tiles() const { return (end + kTile - 1) / kTile; }
  __device__ void begin_stage(int stage) const {
    Stage<kRows>& to = stages[stage % kBuffers];
    copy.begin(to.first, first_rows, stage * kRows, length);
    copy.begin(to.second, second_rows, stage * kRows, length);
    also(stage);
    copy_async_commit();
  }
  // To be called for each tile in turn, from the first of a stage on. Nobody reads any more what is two
  // stages back or more, and the next stage takes the oldest of these buffers.
  __device__ void enter(int tile) const {
    if (tile % kTiles != 0) return;
    copy_async_wait<0>();
    show_to_group();
    __syncthreads();
    if ((tile + kTiles) * kTile < end) begin_stage(tile / kTiles + 1);
  }
  __device__ GroupTile first(int tile) const {
    return place + (tile / kTiles % kBuffers * static_cast<int>(sizeof(Stage<kRows>)) +
                    tile % kTiles * kTile * kTileWidth * 2);
  }
  __device__ GroupTile second(int tile) const { return first(tile) + kRows * kTileWidth * 2; }
};
struct NothingElse {
  __device__ void operator()(int) const {}
};

// ---- registers ----

// The lane's part of the block's rows as a left operand; zeros beyond the row's end.
template <int kSteps>
__device__ inline void load_operand(uint32_t (&a)[kSteps][4], const HeadRows& rows, const Span& span) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int place = span.first + this_row() + 8 * r;
    const bool there = place < span.length;
    const auto* at =
        reinterpret_cast<const uint32_t*>(rows.at + (there ? place : 0) * rows.pitch) + this_lane() % 4;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      a[i / 2][i % 2 * 2 + r] = there && i * 8 < rows.width ? at[i * 4] : 0;
    }
  }
}

// Sums times `factor` of the lane's two rows, to where those are of the row's positions.
template <int kColumns>
__device__ inline void store_sums(const float (&c)[kColumns][4], const float (&factor)[2], const HeadRows& to,
                                  const Span& span) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int place = span.first + this_row() + 8 * r;
    if (place >= span.length) continue;
    auto* at = reinterpret_cast<uint32_t*>(to.at + place * to.pitch) + this_lane() % 4;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      if (n * 8 < to.width) at[n * 4] = bf16_pair(c[n][2 * r] * factor[r], c[n][2 * r + 1] * factor[r]);
    }
  }
}

// The two bfloat16 of a register.
__device__ inline float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Weights out of scores and log-sum-exps, to base 2.
__device__ inline float weight(float score, float scale, float lse) {
  return fast_exp2(fmaf(score, scale, -lse));
}

// Takes the keys out of scores [queries, keys] that a query does not see: those from `end` on and, in the
// causal form, those after it. `query`: the lane's first, not before `first`; `key`: the tile's first.
__device__ inline void hide_keys(Scores& s, int first, int query, int key, int end, bool causal) {
  if (key + kTile <= (causal ? min(end, first + 1) : end)) return;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int limit = causal ? min(end, query + i % 4 / 2 * 8 + 1) : end;
    if (key + i / 4 * 8 + this_lane() % 4 * 2 + i % 2 >= limit) s[i / 4][i % 4] = -INFINITY;
  }
}

// ---- dropout ----

// A Philox block has the numbers of 8 neighbouring keys of a query (dropout_attention_position), and a lane
// two of them: so each lane of those that share blocks computes some, and hands on which weights are kept.
//
// A block's counter is {query << 17 | key / 8, head | query >> 15, stream}: but for the lower word it is the
// same for all queries of a tile, and so is what the first two of seven rounds make of the rest.
struct WeightDraw {
  uint32_t c0, c1, c2;  // of rounds 0 and 1, what is the same for a row and head
  uint32_t limit;       // in both halves: 2^15 − threshold / 2

  WeightDraw() = default;
  __device__ WeightDraw(const AttentionData& d, const DropoutKeys& keys, const Span& span, int h) {
    const uint64_t stream = dropout_stream(d.draw.site, *d.draw.step),
                   head = dropout_attention_position(d.draw.slots[span.start] >> 24, d.heads, h, 0) / 8;
    const WideProduct p = multiply_wide(static_cast<uint32_t>(stream), kPhiloxSecond);
    c0 = p.high ^ static_cast<uint32_t>(head >> 32) ^ keys.first[0];
    c1 = p.low ^ keys.first[1];
    c2 = static_cast<uint32_t>(stream >> 32) ^ keys.second[0];
    limit = (0x8000 - d.draw.rate.threshold / 2) * 0x10001u;
  }

  // Bit 4i + k, and 16 further on: whether the two numbers in word k of the block whose counter has the lower
  // word low_of(i) keep their weights; `query` is any of the tile's. The threshold is even, so that a
  // number's lowest bit does not matter, and the bit above each half of a word says how its comparison comes
  // out.
  template <int kAtOnce, class Low>
  __device__ uint32_t kept(const DropoutKeys& keys, int query, const Low& low_of) const {
    const WideProduct same = multiply_wide(c0 ^ static_cast<uint32_t>(query) >> 15, kPhiloxFirst);
    const uint32_t same_high = same.high ^ keys.second[1];
    uint32_t bits = 0;
#pragma unroll kAtOnce
    for (int i = 0; i < 4; ++i) {
      WideProduct first = multiply_wide(low_of(i), kPhiloxFirst),
                  second = multiply_wide(first.high ^ c2, kPhiloxSecond);
      uint32_t w[4] = {second.high ^ c1, second.low, same_high ^ first.low, same.low};
#pragma unroll
      for (int round = 2; round < 7; ++round) {
        first = multiply_wide(w[0], kPhiloxFirst), second = multiply_wide(w[2], kPhiloxSecond);
        w[0] = second.high ^ w[1] ^ keys.first[round];
        w[1] = second.low;
        w[2] = first.high ^ w[3] ^ keys.second[round];
        w[3] = first.low;
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint32_t sum = ((w[k] & ~0x10000u) >> 1) + limit;
        bits = bits >> 1 | (sum & 0x80008000u);
      }
    }
    return bits;
  }
};

// Which weights among sums [queries, keys] are kept: a mask for the pair of bf16 made of c[n][2r] and
// c[n][2r + 1]. kAtOnce: Philox blocks; several are sooner done, and take more registers.
struct KeptOfRows {
  uint32_t words[4][2];

  // `query`: the lane's first; `key`: the tile's first.
  template <int kAtOnce>
  __device__ void draw(const WeightDraw& from, const DropoutKeys& keys, int query, int key) {
    const int lane = this_lane(), t = lane % 4;
    const uint32_t first = (static_cast<uint32_t>(query) << 17) + static_cast<uint32_t>(key / 8 + t);
    const uint32_t mine = from.kept<kAtOnce>(keys, query, [&](int i) {  // queries and octets of keys
      return first + (static_cast<uint32_t>(i / 2 * 8) << 17) + static_cast<uint32_t>(i % 2 * 4);
    });
#pragma unroll
    for (int n = 0; n < 4; ++n) {  // word t of their blocks: its bits where bytes end
      const uint32_t theirs = __shfl_sync(kAllLanes, mine, (lane & ~3) + n) * (8u >> t);
      words[n][0] = theirs * 16;
      words[n][1] = theirs;
    }
  }
  __device__ uint32_t mask(int n, int r) const {
    const uint32_t word = words[n % 4][n / 4];
    return r ? spread_bits<1, 3>(word) : spread_bits<0, 2>(word);
  }
};

// The same for sums [keys, queries]; `query`: the tile's first, `key`: the warp's first.
struct KeptOfColumns {
  uint32_t words[8];
  int shift;

  template <int kAtOnce>
  __device__ void draw(const WeightDraw& from, const DropoutKeys& keys, int query, int key) {
    const int lane = this_lane(), g = lane / 4, t = lane % 4;
    const uint32_t first =
        (static_cast<uint32_t>(query + 8 * g + 2 * t) << 17) + static_cast<uint32_t>(key / 8);
    const uint32_t mine = from.kept<kAtOnce>(keys, query, [&](int i) {  // queries and octets of keys
      return first + (static_cast<uint32_t>(i / 2) << 17) + static_cast<uint32_t>(i % 2);
    });
    shift = 7 - g / 2 - g % 2 * 16;  // of key g
#pragma unroll
    for (int n = 0; n < 8; ++n) words[n] = __shfl_sync(kAllLanes, mine, 4 * n + t);
  }
  __device__ uint32_t mask(int n, int r) const {
    return spread_bits<0, 1>(__funnelshift_l(words[n], words[n], static_cast<unsigned>(shift - 4 * r)));
  }
};

// Calls f(std::integral_constant<int, kWidth>, std::bool_constant<drops>).
template <class F>
void choose_attention_kernel(const AttentionData& d, const F& f) {
  const auto with_width = [&](auto width) {
    d.draw.rate.threshold > 0 ? f(width, std::true_type()) : f(width, std::false_type());
  };
  if (d.width <= 16) return with_width(std::integral_constant<int, 16>());
  if (d.width <= 32) return with_width(std::integral_constant<int, 32>());
  if (d.width <= 48) return with_width(std::integral_constant<int, 48>());
  with_width(std::integral_constant<int, 64>());
}

}  // namespace attention_tiles
}  // namespace lra
