// What the CUDA kernels of interval_attention share: tiles of 64 rows (queries, keys, values) in shared
// memory, their products, the numbers of dropout, and work that several blocks of threads share.
//
// A warp has 16 rows of the left operand; lane 4g + t of it has rows g and g + 8 of the sums and columns
// 2t, 2t + 1 of each 8 (kernels/rows/mma.cuh).
#pragma once
#include <cmath>
#include <type_traits>

#include <climits>

#include "base/cuda_start.cuh"
#include "kernels/interval_attention/interval_attention_arguments.h"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/mma.cuh"
#include "kernels/rows/octet.cuh"
#include "kernels/rows/quad.cuh"

namespace lra {

using Bf16 = __nv_bfloat16;

inline constexpr float kLog2E = 1.44269504088896f;

__device__ inline int this_thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int this_warp() { return this_thread() / 32; }
__device__ inline int this_lane() { return this_thread() % 32; }

// lse of what is no query is the 0 that it was before; queries have −0 instead.
__device__ inline bool is_query(float lse) { return __float_as_uint(lse) != 0; }

template <int kWidth>
struct TileShape {
  static_assert(kWidth % 16 == 0, "products are made of 16 by 16");
  // 16 bytes more than a row: the eight rows that load_tiles reads at a time lie in different banks.
  static constexpr int kStride = kWidth + 8;
  static constexpr int kOctets = kWidth / 8, kSteps = kWidth / 16;
  static constexpr int kElements = kIntervalTile * kStride;
};

// ---- rows between global and shared memory ----

// Where the rows of two tiles come from; null: zeros.
struct TwoRows {
  const Bf16 *first, *second;
};

// Begins to copy the rows of two tiles, row r from from(r). `width` is that of the rows, a multiple of 8;
// `any` is some address.
template <int kWidth, class From>
__device__ inline void copy_tiles(Bf16* first, Bf16* second, int width, const Bf16* any, const From& from) {
  using S = TileShape<kWidth>;
#pragma unroll 1  // addresses computed ahead would take registers that the products need
  for (int i = 0; i < S::kOctets * kIntervalTile / kIntervalThreads; ++i) {
    const int n = i * kIntervalThreads + this_thread(), row = n / S::kOctets,
              column = n % S::kOctets * kOctet;
    const TwoRows source = from(row);
    const bool there = source.first && column < width, both = there && source.second;
    const int to = row * S::kStride + column;
    copy_async_or_zero<16>(first + to, there ? source.first + column : any, there);
    copy_async_or_zero<16>(second + to, both ? source.second + column : any, both);
  }
}

// Rounds a warp's sums [16, kWidth] times `factor`, of a lane's two rows, into the warp's rows of a tile and
// from there to global memory: row r to to(r), nowhere where that is null. `adds`: on top of what is there.
template <int kWidth, class To>
__device__ inline void store_rows(Bf16* tile, const float (&sums)[kWidth / 8][4], const float (&factor)[2],
                                  int width, bool adds, const To& to) {
  using S = TileShape<kWidth>;
  const int lane = this_lane(), first = this_warp() * 16;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < S::kOctets; ++n) {
    Bf16* at = tile + (first + lane / 4) * S::kStride + n * 8 + lane % 4 * 2;
    *reinterpret_cast<uint32_t*>(at) = bf16_pair(sums[n][0] * factor[0], sums[n][1] * factor[0]);
    *reinterpret_cast<uint32_t*>(at + 8 * S::kStride) =
        bf16_pair(sums[n][2] * factor[1], sums[n][3] * factor[1]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < S::kOctets / 2; ++i) {
    const int n = i * 32 + lane, row = first + n / S::kOctets, column = n % S::kOctets * kOctet;
    Bf16* target = to(row);
    if (!target || column >= width) continue;
    auto octet = load_octet<true>(tile + row * S::kStride, column, width);
    if (adds) {
      float mine[kOctet], theirs[kOctet];
      widen(octet, mine);
      widen(load_octet<true>(target, column, width), theirs);
#pragma unroll
      for (int c = 0; c < kOctet; ++c) mine[c] += theirs[c];
      octet = narrow<Bf16>(mine);
    }
    store_octet<true>(target, column, width, octet);
  }
}

// ---- products ----

// A warp's 16 rows of a tile as a left operand.
template <int kWidth>
__device__ inline void load_left(uint32_t (&a)[kWidth / 16][4], const Bf16* tile) {
  using S = TileShape<kWidth>;
  const int lane = this_lane();
  const Bf16* at = tile + (this_warp() * 16 + lane % 16) * S::kStride + lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < S::kSteps; ++step) load_tiles(a[step], at + step * 16);
}

// c [16, 8·kColumns] += a [16, kWidth] · rowsᵀ, with rows `first` … of a tile.
template <int kWidth, int kColumns>
__device__ inline void multiply_rows(float (&c)[kColumns][4], const uint32_t (&a)[kWidth / 16][4],
                                     const Bf16* tile, int first) {
  using S = TileShape<kWidth>;
  const int lane = this_lane();
  const Bf16* at = tile + (first + lane % 8 + lane / 16 * 8) * S::kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int step = 0; step < S::kSteps; ++step) {
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      uint32_t b[4];
      load_tiles(b, at + n * 8 * S::kStride + step * 16);
      mma_bf16(c[n], a[step], b[0], b[1]);
      mma_bf16(c[n + 1], a[step], b[2], b[3]);
    }
  }
}

// c [16, kWidth] += a [16, 16·kSteps] · rows, with rows `first` … of a tile.
template <int kWidth, int kSteps>
__device__ inline void multiply_columns(float (&c)[kWidth / 8][4], const uint32_t (&a)[kSteps][4],
                                        const Bf16* tile, int first) {
  using S = TileShape<kWidth>;
  const int lane = this_lane();
  const Bf16* at = tile + (first + lane % 16) * S::kStride + lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int n = 0; n < S::kOctets; n += 2) {
      uint32_t b[4];
      load_tiles_transposed(b, at + step * 16 * S::kStride + n * 8);
      mma_bf16(c[n], a[step], b[0], b[1]);
      mma_bf16(c[n + 1], a[step], b[2], b[3]);
    }
  }
}

// Sums of a product as the left operand of the next.
template <int kColumns>
__device__ inline void as_left(uint32_t (&a)[kColumns / 2][4], const float (&c)[kColumns][4]) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    a[n / 2][n % 2 * 2] = bf16_pair(c[n][0], c[n][1]);
    a[n / 2][n % 2 * 2 + 1] = bf16_pair(c[n][2], c[n][3]);
  }
}

// ---- dropout ----

// What the weights of one row and head draw from.
struct WeightDraw {
  uint64_t stream, head;
  uint32_t threshold;

  WeightDraw() = default;
  __device__ WeightDraw(const IntervalData& d, int row_start, int h)
      : stream(dropout_stream(d.draw.site, *d.draw.step)),
        head(dropout_attention_position(d.draw.slots[row_start] >> 24, d.heads, h, 0)),
        threshold(d.draw.rate.threshold) {}

  // Bit i: whether the weight in column 8·octet + i of the query at `place` of its row is kept.
  __device__ uint32_t octet(const DropoutKeys& keys, int place, int octet) const {
    const uint64_t index = (head + (static_cast<uint64_t>(place) << 20)) / 8 + static_cast<uint64_t>(octet);
    const PhiloxBlock block = draw_block(keys, stream, index);
    const uint32_t dropped = (threshold << 16) - 1;  // compared in the upper half of a word
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const uint32_t word = block.word[i / 2];
      kept |= ((i % 2 ? word : word << 16) > dropped ? 1u : 0u) << i;
    }
    return kept;
  }
};

// ---- work that several blocks of threads share ----

// To be called by all threads after they wrote what their piece gives; true in the block that comes last,
// which may then read the pieces of all. The order in which it adds them up does not depend on who that is.
__device__ inline bool last_to_arrive(int32_t* arrived, int pieces) {
  __shared__ int before;
  __threadfence();
  __syncthreads();
  if (this_thread() == 0) {
    before = atomicAdd(arrived, 1);
    if (before == pieces - 1) *arrived = 0;
  }
  __syncthreads();
  __threadfence();
  return before == pieces - 1;
}

// Sums of pieces lie in memory register by register; `piece` is the thread's own address.
template <int kColumns>
__device__ inline void leave_sums(const float (&c)[kColumns][4], float* piece) {
#pragma unroll
  for (int n = 0; n < 4 * kColumns; ++n) piece[n * kIntervalThreads] = c[n / 4][n % 4];
}
template <int kColumns>
__device__ inline void join_sums(float (&c)[kColumns][4], const float* piece) {
#pragma unroll
  for (int n = 0; n < 4 * kColumns; ++n) c[n / 4][n % 4] += __ldcg(piece + n * kIntervalThreads);
}
template <int kColumns>
__device__ inline void clear_sums(float (&c)[kColumns][4]) {
#pragma unroll
  for (int n = 0; n < 4 * kColumns; ++n) c[n / 4][n % 4] = 0;
}

// Calls f(std::integral_constant<int, lanes>): threads, a power of 2, for the octets of a row.
template <class F>
void choose_lanes(int64_t P, const F& f) {
  if (P <= 2 * kOctet) return f(std::integral_constant<int, 2>());
  if (P <= 4 * kOctet) return f(std::integral_constant<int, 4>());
  if (P <= 8 * kOctet) return f(std::integral_constant<int, 8>());
  f(std::integral_constant<int, 16>());
}

// Calls f(std::integral_constant<int, width>, std::bool_constant<drops>).
template <class F>
void choose_interval_kernel(int64_t P, bool drops, const F& f) {
  const auto with_width = [&](auto width) {
    drops ? f(width, std::true_type()) : f(width, std::false_type());
  };
  switch (interval_kernel_width(P)) {
    case 16:
      return with_width(std::integral_constant<int, 16>());
    case 32:
      return with_width(std::integral_constant<int, 32>());
    case 48:
      return with_width(std::integral_constant<int, 48>());
    case 64:
      return with_width(std::integral_constant<int, 64>());
    case 96:
      return with_width(std::integral_constant<int, 96>());
    default:
      return with_width(std::integral_constant<int, 128>());
  }
}

}  // namespace lra
