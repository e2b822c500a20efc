// CUDA side of hash_buckets.h for bfloat16: products on tensor cores, in which nothing is lost. A float is
// the sum of three numbers in bfloat16 of 8 bits each, and products of two such numbers are exact in the
// float that sums them:
//
//   q·R = q·R⁰ + q·R¹ + q·R²,   R⁰ = bf16(R),   R¹ = bf16(R − R⁰),   R² = R − R⁰ − R¹
//
// A first kernel takes the matrix apart. A block of the second has a head of neighbouring positions, a warp
// 32 of them as left operands in registers; what is said in hash_buckets.cu holds here, too.
#include "kernels/hash_buckets/hash_best.cuh"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/mma.cuh"

namespace lra {
namespace {

using Bf16 = __nv_bfloat16;

constexpr int kThreads = 256, kWarpRows = 32, kPositions = kThreads / 32 * kWarpRows, kVectors = 4;
constexpr int kTile = 72;  // columns at a time: 4096 positions and CLS have 65
constexpr int kParts = 3;

// [rounds, kParts, columns, kWidth]; zeros beyond the vectors' width
template <int kWidth>
__global__ void __launch_bounds__(kThreads) parts_kernel(HashBucketsArguments a) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, row = at / kWidth,
                round = row / a.columns;
  if (round >= a.rounds) return;
  const int column = static_cast<int>(row - round * a.columns), k = static_cast<int>(at % kWidth);
  float left = k < a.width ? static_cast<const float*>(a.matrix)[row * a.width + k] : 0.0f;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Bf16 rounded = __float2bfloat16_rn(left);
    left -= __bfloat162float(rounded);
    static_cast<Bf16*>(a.parts)[((round * kParts + part) * a.columns + column) * kWidth + k] = rounded;
  }
}

// Columns first … first + count − 1 of a round, a part after the other.
template <int kWidth>
__device__ void load_tile(const HashBucketsArguments& a, int round, int first, int count, Bf16* tile) {
  constexpr int kPitch = kWidth + 8, kOctets = kWidth / 8;
  const auto* source = static_cast<const Bf16*>(a.parts) + int64_t{round} * kParts * a.columns * kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kParts * count * kOctets; i += kThreads) {
    const int row = i / kOctets, octet = i % kOctets, part = row / count, column = row - part * count;
    copy_async<16>(tile + (part * kTile + column) * kPitch + octet * 8,
                   source + (int64_t{part} * a.columns + first + column) * kWidth + octet * 8);
  }
  copy_async_commit();
  copy_async_wait<0>();
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads, kWidth <= 64 ? 2 : 1) products_kernel(HashBucketsArguments a) {
  constexpr int kSteps = kWidth / 16, kPitch = kWidth + 8;
  __shared__ HashPlace places[kPositions];
  Bf16* tile = dynamic_shared<Bf16>();  // [kParts, kTile, kPitch]
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPositions;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32,
            row = thread / 32 * kWarpRows + lane / 4;
  places[thread] = first + thread < a.positions ? place_of(a, first + thread) : HashPlace{0, 0};
  const int columns = places[thread].half;
  uint32_t left[2][kSteps][4];  // rows 0 … 15 and 16 … 31 of the warp
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const bool there = first + row + 8 * v < a.positions;
    const Bf16* vector = static_cast<const Bf16*>(a.q) + (there ? first + row + 8 * v : 0) * a.stride +
                         static_cast<int64_t>(blockIdx.y) * a.width;
#pragma unroll
    for (int s = 0; s < 2 * kSteps; ++s) {
      const int k = 8 * s + lane % 4 * 2;
      const bool here = there && k < a.width;
      left[v / 2][s / 2][s % 2 * 2 + v % 2] = here ? *reinterpret_cast<const uint32_t*>(vector + k) : 0;
    }
  }
  __syncthreads();
  int half[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) half[v] = places[row + 8 * v].half;
  for (int round = 0; round < a.rounds; ++round) {
    HashBest<float> best[kVectors];
    for (int from = 0; from < a.columns; from += kTile) {
      // Also: nobody reads the tile before any more.
      if (!__syncthreads_or(columns > from)) break;
      const int count = a.columns - from < kTile ? a.columns - from : kTile;
      load_tile<kWidth>(a, round, from, count, tile);
      __syncthreads();
#pragma unroll 1
      for (int n = 0; n < count; n += 8) {
        float sums[kParts][2][4] = {};  // apart: a sum waits for the one before it
        const Bf16* right = tile + (n + lane % 8) * kPitch + lane / 8 * 8;
#pragma unroll
        for (int s = 0; s < kSteps; s += 2) {
          uint32_t b[kParts][4];
#pragma unroll
          for (int part = 0; part < kParts; ++part)
            load_tiles(b[part], right + part * kTile * kPitch + 16 * s);
#pragma unroll
          for (int step = 0; step < 2; ++step) {
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
#pragma unroll
              for (int m = 0; m < 2; ++m) {
                mma_bf16(sums[part][m], left[m][s + step], b[part][2 * step], b[part][2 * step + 1]);
              }
            }
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int column = from + n + lane % 4 * 2 + i;
#pragma unroll
          for (int v = 0; v < kVectors; ++v) {
            const auto of = [&](int part) { return sums[part][v / 2][v % 2 * 2 + i]; };
            const auto rank = rank_of(of(0) + (of(1) + of(2)));
            if (column < half[v] && rank > best[v].rank) best[v] = {rank, column};
          }
        }
      }
    }
    store_buckets<8>(a, {round, first, row}, best, half, places);
  }
}

template <int kWidth>
int start(const HashBucketsArguments& a, cudaStream_t stream) {
  const int64_t numbers = int64_t{a.rounds} * a.columns * kWidth;
  start_kernel(parts_kernel<kWidth>,
               {dim3(static_cast<unsigned>((numbers + kThreads - 1) / kThreads)), dim3(kThreads), stream}, a);
  const dim3 grid(static_cast<unsigned>((a.positions + kPositions - 1) / kPositions),
                  static_cast<unsigned>(a.heads));
  start_kernel(products_kernel<kWidth>,
               {grid, dim3(kThreads), stream, sizeof(Bf16) * kParts * kTile * (kWidth + 8)}, a);
  return cudaGetLastError();
}

}  // namespace

bool hash_products_serve(const HashBucketsArguments& a) {
  return a.parts && a.stride % 2 == 0 && reinterpret_cast<uintptr_t>(a.q) % 4 == 0;
}

int start_hash_products(const HashBucketsArguments& a, cudaStream_t stream) {
  switch (hash_product_width(a.width, a.element)) {
    case 32:
      return start<32>(a, stream);
    case 64:
      return start<64>(a, stream);
    case 128:
      return start<128>(a, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace lra
