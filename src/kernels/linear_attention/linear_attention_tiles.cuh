// What the CUDA kernels of linear_attention.h share: sizes, tiles of positions in shared memory, and
// fragments of them for the tensor cores (rows/mma.cuh).
//
// Two kinds of kernels. Where features are summed over positions, a warp has features for its own and goes
// through all positions of its block. Where positions are computed from the sums, a warp has positions for
// its own and goes through all features. Either way the features come out of one product in registers and go
// into the next from there.
#pragma once
#include <cmath>
#include <type_traits>

#include "base/cuda_start.cuh"
#include "kernels/linear_attention/linear_attention_arguments.h"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/mma.cuh"
#include "kernels/rows/quad.cuh"

namespace lra {

using Bf16 = uint16_t;

inline constexpr int kTile = 16;          // rows and columns of a left operand
inline constexpr int kSumPositions = 64;  // positions in shared memory at a time, where they are summed over
inline constexpr float kLog2e = 1.44269504f;
inline constexpr int kEluMap = 0;  // FeatureMap

template <bool kSoftmax_, int kWidth_>
struct LinearPlan {
  static constexpr bool kSoftmax = kSoftmax_;
  static constexpr int kWidth = kWidth_;                                     // Pp
  static constexpr int kStride = kWidth + static_cast<int>(kLinearPadding);  // an odd number of 16 bytes
  static constexpr int kSteps = kWidth / kTile;                              // products over the width
  static constexpr int kColumns = kWidth / 8;                                // tiles of sums over the width
  static constexpr int kMostFeatures = kSoftmax ? static_cast<int>(linear_max_features(kWidth)) : kWidth;
  // Where a warp has features: tiles of 16 of them.
  static constexpr int kBands = kSoftmax ? (kWidth > 64 ? 1 : 2) : (kSteps % 2 == 0 ? 2 : 1);
  static constexpr int kPart = kSoftmax && kWidth > 64 ? 16 : 32;  // positions worked on at a time
  static constexpr int kSumThreads = kMostFeatures / (kTile * kBands) * 32;
  // Where a warp has positions.
  static constexpr int kRowWarps = kSoftmax && kWidth <= 64 ? 8 : 4;
};

// Where thread 4g + t of a warp is.
struct Lane {
  int lane, g, t;
  __device__ Lane() : lane(static_cast<int>(threadIdx.x) % 32), g(lane / 4), t(lane % 4) {}
};

// Positions of a row.
struct Span {
  int begin, length;
};
__device__ inline Span key_span(const LinearAttentionArguments& a, int row) {
  return {a.offsets[row], a.lengths[row]};
}
__device__ inline Span query_span(const LinearAttentionArguments& a, int row) {
  return a.first ? Span{row, 1} : key_span(a, row);
}

// ---- fragments of matrices in shared memory, kStride elements from row to row ----

// Left operand, rows and k as they lie: x[row0 … +15][k0 … +15].
template <int kStride>
__device__ inline void load_left(uint32_t (&f)[4], const Bf16* x, int row0, int k0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles(f, x + (row0 + lane % 16) * kStride + k0 + lane / 16 * 8);
}
// Left operand out of its transpose: x[k0 … +15][row0 … +15].
template <int kStride>
__device__ inline void load_left_transposed(uint32_t (&f)[4], const Bf16* x, int k0, int row0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles_transposed(f, x + (k0 + lane / 16 * 8 + lane % 8) * kStride + row0 + lane / 8 % 2 * 8);
}
// Right operands of two neighbouring tiles, f[0], f[1] and f[2], f[3], out of x[column0 … +15][k0 … +15].
template <int kStride>
__device__ inline void load_right(uint32_t (&f)[4], const Bf16* x, int column0, int k0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles(f, x + (column0 + lane / 16 * 8 + lane % 8) * kStride + k0 + lane / 8 % 2 * 8);
}
// The same out of x[k0 … +15][column0 … +15].
template <int kStride>
__device__ inline void load_right_transposed(uint32_t (&f)[4], const Bf16* x, int k0, int column0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles_transposed(f, x + (k0 + lane % 16) * kStride + column0 + lane / 16 * 8);
}

__device__ inline float low_half(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ inline float pair_square(uint32_t pair) {
  return low_half(pair) * low_half(pair) + high_half(pair) * high_half(pair);
}

// A left operand lies in registers as two tiles of sums do.
__device__ inline void widen_left(const uint32_t (&f)[4], float (&left)[4], float (&right)[4]) {
  left[0] = low_half(f[0]), left[1] = high_half(f[0]), left[2] = low_half(f[1]), left[3] = high_half(f[1]);
  right[0] = low_half(f[2]), right[1] = high_half(f[2]), right[2] = low_half(f[3]),
  right[3] = high_half(f[3]);
}
__device__ inline void narrow_left(const float (&left)[4], const float (&right)[4], uint32_t (&f)[4]) {
  f[0] = bf16_pair(left[0], left[1]), f[1] = bf16_pair(left[2], left[3]);
  f[2] = bf16_pair(right[0], right[1]), f[3] = bf16_pair(right[2], right[3]);
}

// Sums of features whose exponents are taken out of them, row by row of the fragments: `reference` follows
// the largest exponent seen, but only when it is left behind by more than a factor of 2^8; then what was
// summed so far is scaled, which is seldom.
template <int kBands, int kGroups, int kColumns>
__device__ inline void follow_exponents(const float (&exponents)[kBands][kGroups][4],
                                        float (&reference)[kBands][2], float (&sums)[kBands][kColumns][4],
                                        float (&more)[kBands][4]) {
  constexpr float kSlack = 8;
  float most[kBands][2];
  bool far = false;
#pragma unroll
  for (int band = 0; band < kBands; ++band) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      most[band][i] = -INFINITY;
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
        most[band][i] = fmaxf(most[band][i], fmaxf(exponents[band][n][2 * i], exponents[band][n][2 * i + 1]));
      }
      most[band][i] = quad_max(most[band][i]);
      far = far || most[band][i] > reference[band][i] + kSlack;
    }
  }
  if (!__any_sync(kAllLanes, far)) return;
#pragma unroll
  for (int band = 0; band < kBands; ++band) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float raised = fmaxf(most[band][i], reference[band][i]);
      const float factor = fast_exp2(reference[band][i] - raised);
      reference[band][i] = raised;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) sums[band][n][2 * i] *= factor, sums[band][n][2 * i + 1] *= factor;
      more[band][2 * i] *= factor, more[band][2 * i + 1] *= factor;
    }
  }
}

// ---- copies ----

// Calls f(row, column) for every 16 bytes of kRows rows, spread over `threads` threads, whole warps.
template <int kRows, class P, class F>
__device__ inline void for_pieces(int thread, int threads, const F& f) {
  constexpr int kPieces = P::kWidth / 8;
  if constexpr (32 % kPieces == 0) {  // a thread keeps its column
    const int column = thread % kPieces * 8, step = threads / kPieces;
#pragma unroll 4
    for (int row = thread / kPieces; row < kRows; row += step) f(row, column);
  } else {
#pragma unroll 3
    for (int i = thread; i < kRows * kPieces; i += threads) f(i / kPieces, i % kPieces * 8);
  }
}

// kRows positions of a head into shared memory; zeros beyond `count` and the width.
template <int kRows, class P>
__device__ inline void copy_positions(Bf16* tile, const void* tensor, int64_t stride, int64_t position,
                                      int count, int width, int thread, int threads) {
  const auto* from = static_cast<const Bf16*>(tensor) + position * stride;
  for_pieces<kRows, P>(thread, threads, [&](int row, int column) {
    copy_async_or_zero<16>(tile + row * P::kStride + column, from + row * stride + column,
                           row < count && column < width);
  });
}

// Back, by a warp.
template <int kRows, class P>
__device__ inline void store_positions(const Bf16* tile, void* tensor, int64_t stride, int64_t position,
                                       int count, int width) {
  auto* to = static_cast<Bf16*>(tensor) + position * stride;
  for_pieces<kRows, P>(static_cast<int>(threadIdx.x) % 32, 32, [&](int row, int column) {
    if (row < count && column < width) {
      *reinterpret_cast<uint4*>(to + row * stride + column) =
          *reinterpret_cast<const uint4*>(tile + row * P::kStride + column);
    }
  });
}

// Sums of 16 positions, rounded, into rows of shared memory.
template <class P>
__device__ inline void stage(Bf16* tile, const float (&sums)[P::kColumns][4]) {
  const Lane at;
#pragma unroll
  for (int n = 0; n < P::kColumns; ++n) {
    Bf16* to = tile + at.g * P::kStride + n * 8 + 2 * at.t;
    *reinterpret_cast<uint32_t*>(to) = bf16_pair(sums[n][0], sums[n][1]);
    *reinterpret_cast<uint32_t*>(to + 8 * P::kStride) = bf16_pair(sums[n][2], sums[n][3]);
  }
}

// `bytes`, a multiple of 16, from global to shared memory, by the block.
__device__ inline void copy_block(void* to, const void* from, int bytes) {
  for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += static_cast<int>(blockDim.x) * 16) {
    copy_async<16>(static_cast<char*>(to) + i, static_cast<const char*>(from) + i);
  }
}

// Zeros at the positions between a row's end and the next row, of this head; the row's blocks share them.
__device__ inline void zero_gap(const LinearAttentionArguments& a, void* tensor, int64_t stride) {
  const int row = static_cast<int>(blockIdx.z), pieces = static_cast<int>(a.width) / 8;
  const int64_t end = a.offsets[row] + a.lengths[row];
  const int64_t next = row + 1 < static_cast<int>(gridDim.z) ? a.offsets[row + 1] : a.positions;
  const int64_t threads = static_cast<int64_t>(gridDim.y) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < (next - end) * pieces;
       i += threads) {
    auto* to =
        static_cast<Bf16*>(tensor) + (end + i / pieces) * stride + blockIdx.x * a.width + i % pieces * 8;
    *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
  }
}

// ---- the feature maps ----

// Exponents are of two. Softmax: φ(x)_m = 2^(slope · ω_m·x − square · ‖x‖²).
struct FeatureScale {
  float c, slope, square, epsilon;
  bool elu;

  explicit FeatureScale(const LinearAttentionArguments& a)
      : c(1 / sqrtf(sqrtf(static_cast<float>(a.width)))),
        slope(c * kLog2e),
        square(0.5f * c * c * kLog2e),
        epsilon(a.map == kEluMap ? 1e-6f : 0.0f),
        elu(a.map == kEluMap) {}
};

// elu(x) + 1 or relu(x) + 1e-3; what is no number stays none.
__device__ inline float element_feature(bool elu, float x) {
  const float positive = x < 0 ? 0 : x, negative = x > 0 ? 0 : x;
  return positive + (elu ? fast_exp2(negative * kLog2e) : 1e-3f);
}
__device__ inline float element_slope(bool elu, float x, float feature) {
  return x > 0 ? 1.0f : elu ? feature : 0.0f;
}

// Calls f(plan) for the map and width.
template <class F>
int choose_linear_plan(const LinearAttentionArguments& a, const F& f) {
  const auto with_map = [&](auto softmax) {
    constexpr bool kSoftmax = decltype(softmax)::value;
    switch (linear_padded_width(a.width)) {
      case 16:
        return f(LinearPlan<kSoftmax, 16>());
      case 32:
        return f(LinearPlan<kSoftmax, 32>());
      case 48:
        return f(LinearPlan<kSoftmax, 48>());
      case 64:
        return f(LinearPlan<kSoftmax, 64>());
      default:
        return f(LinearPlan<kSoftmax, 128>());
    }
  };
  if (a.rows == 0 || a.positions == 0) return 0;
  a.projection ? with_map(std::true_type()) : with_map(std::false_type());
  return cudaGetLastError();
}

inline unsigned ceil_div(int64_t n, int64_t by) { return static_cast<unsigned>((n + by - 1) / by); }

// Blocks for (head, chunk, row).
inline dim3 chunk_grid(const LinearAttentionArguments& a, bool queries) {
  return {static_cast<unsigned>(a.heads), ceil_div(queries && a.first ? 1 : a.longest, a.chunk),
          static_cast<unsigned>(a.rows)};
}

}  // namespace lra
