// Sums over the positions of a row (linear_attention_arguments.h), in both passes one kernel:
//
//   forward    S_m = Σ_j φ(k_j)_m v_j                 z_m = Σ_j φ(k_j)_m
//   backward   dS_m = Σ_i (φ(q_i)_m / den_i) d_out_i    dz_m = −Σ_i (φ(q_i)_m / den_i) (d_out_i·out_i)
//
// A block has one chunk of a row and one head, each of its warps 16 or 32 features. Positions come through
// shared memory, 64 at a time, the next while these are worked on. Features [m, j] are computed with the
// position as the column, so that they are the left operand of the product with v as they stand.
#include "kernels/linear_attention/linear_attention_combine.cuh"

namespace lra {
namespace {

// Shared memory of the kernel.
template <class P>
struct SumTiles {
  Bf16 x[2][kSumPositions * P::kStride], y[2][kSumPositions * P::kStride];  // k and v, or q and d_out
  float normaliser[2][kSumPositions], delta[2][kSumPositions];              // backward
  float column[kSumPositions];   // softmax: added to exponents; else a factor of features
  Bf16 extra[2][kSumPositions];  // what z sums besides: a number as a sum of two
};

template <class P, bool kBackward>
struct SumProblem {
  const LinearAttentionArguments& a;
  const void *x, *y;  // of this head
  int64_t x_stride, y_stride;
  const float *normaliser, *delta;  // of this head
  int64_t begin;                    // position of the chunk's first
  int count;

  __device__ SumProblem(const LinearAttentionArguments& arguments, const Span& span, int chunk)
      : a(arguments), begin(span.begin + chunk) {
    const int64_t h = blockIdx.x, here = h * a.width;
    x = static_cast<const Bf16*>(kBackward ? a.q : a.k) + here;
    y = static_cast<const Bf16*>(kBackward ? a.d_out : a.v) + here;
    x_stride = kBackward ? a.q_stride : a.stride;
    y_stride = kBackward ? a.heads * a.width : a.stride;
    normaliser = a.normaliser + h * a.queries;
    delta = a.delta + h * a.queries;
    count = span.length - chunk < a.chunk ? span.length - chunk : static_cast<int>(a.chunk);
  }

  __device__ void fetch(SumTiles<P>& tiles, int tile) const {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const int from = tile * kSumPositions, rows = count - from, width = static_cast<int>(a.width),
              at = tile % 2;
    copy_positions<kSumPositions, P>(tiles.x[at], x, x_stride, begin + from, rows, width, thread, threads);
    copy_positions<kSumPositions, P>(tiles.y[at], y, y_stride, begin + from, rows, width, thread, threads);
    if constexpr (kBackward) {
      for (int i = thread; i < kSumPositions && i < rows; i += threads) {
        copy_async<4>(&tiles.normaliser[at][i], normaliser + begin + from + i);
        copy_async<4>(&tiles.delta[at][i], delta + begin + from + i);
      }
    }
  }

  // What depends on a position alone.
  __device__ void prepare(SumTiles<P>& tiles, int tile, const FeatureScale& scale) const {
    const int at = tile % 2, rows = count - tile * kSumPositions;
    if constexpr (!kBackward && P::kSoftmax) {  // four threads a position
      for (int i = static_cast<int>(threadIdx.x) / 4; i < kSumPositions;
           i += static_cast<int>(blockDim.x) / 4) {
        float sum = 0;
        for (int piece = static_cast<int>(threadIdx.x) % 4; piece < P::kWidth / 8; piece += 4) {
          const uint4 quad = *reinterpret_cast<const uint4*>(tiles.x[at] + i * P::kStride + piece * 8);
          sum += pair_square(quad.x) + pair_square(quad.y) + pair_square(quad.z) + pair_square(quad.w);
        }
        sum = quad_sum(sum);
        if (threadIdx.x % 4 == 0) tiles.column[i] = i < rows ? -scale.square * sum : -INFINITY;
      }
    }
    for (int i = static_cast<int>(threadIdx.x); i < kSumPositions; i += static_cast<int>(blockDim.x)) {
      const bool there = i < rows;
      float extra = 1;
      if constexpr (kBackward) {
        extra = there ? -tiles.delta[at][i] : 0;
        const float n = tiles.normaliser[at][i];
        tiles.column[i] = P::kSoftmax ? (there ? -n : -INFINITY) : (there ? n : 0);
      } else if constexpr (!P::kSoftmax) {
        tiles.column[i] = there ? 1 : 0;
      }
      const uint32_t first = bf16_pair(extra, 0);
      tiles.extra[0][i] = static_cast<Bf16>(first);
      tiles.extra[1][i] = static_cast<Bf16>(bf16_pair(extra - low_half(first), 0));
    }
  }
};

// A warp's features, and the sums over positions so far.
template <class P, bool kBackward>
struct FeatureBands {
  static constexpr int kBands = P::kBands, kPart = P::kPart;
  int m0;  // the first feature
  uint32_t omega[kBands][P::kSoftmax ? P::kSteps : 1][4];
  float reference[kBands][2];
  float sums[kBands][P::kColumns][4] = {}, z[kBands][4] = {};

  __device__ FeatureBands(const LinearAttentionArguments& a, const float* largest)
      : m0(static_cast<int>(threadIdx.x) / 32 * kTile * kBands) {
    if constexpr (P::kSoftmax) {
      const Lane at;
      const auto* from = static_cast<const Bf16*>(a.projection) + (m0 + at.g) * P::kStride + 2 * at.t;
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
#pragma unroll
        for (int step = 0; step < P::kSteps; ++step) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            omega[band][step][i] = *reinterpret_cast<const uint32_t*>(
                from + (band * kTile + i % 2 * 8) * P::kStride + step * kTile + i / 2 * 8);
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          reference[band][i] = kBackward ? -largest[m0 + band * kTile + at.g + 8 * i] : -INFINITY;
        }
      }
    }
  }

  // ω_m·x_j, or x_jm, of kPart positions
  __device__ void project(const Bf16* x, int j0, float (&logits)[kBands][kPart / 8][4]) const {
#pragma unroll
    for (int pair = 0; pair < kPart / kTile; ++pair) {
      if constexpr (P::kSoftmax) {
#pragma unroll
        for (int step = 0; step < P::kSteps; ++step) {
          uint32_t f[4];
          load_right<P::kStride>(f, x, j0 + pair * kTile, step * kTile);
#pragma unroll
          for (int band = 0; band < kBands; ++band) {
            mma_bf16(logits[band][2 * pair], omega[band][step], f[0], f[1]);
            mma_bf16(logits[band][2 * pair + 1], omega[band][step], f[2], f[3]);
          }
        }
      } else {
#pragma unroll
        for (int band = 0; band < kBands; ++band) {
          uint32_t f[4];
          load_left_transposed<P::kStride>(f, x, j0 + pair * kTile, m0 + band * kTile);
          widen_left(f, logits[band][2 * pair], logits[band][2 * pair + 1]);
        }
      }
    }
  }

  // logits → features
  __device__ void weigh(const float* column, const FeatureScale& scale,
                        float (&logits)[kBands][kPart / 8][4]) {
    const Lane at;
#pragma unroll
    for (int n = 0; n < kPart / 8; ++n) {
      const float2 c = *reinterpret_cast<const float2*>(column + n * 8 + 2 * at.t);
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& x = logits[band][n][i];
          x = P::kSoftmax ? fmaf(x, scale.slope, i % 2 ? c.y : c.x)
                          : element_feature(scale.elu, x) * (i % 2 ? c.y : c.x);
        }
      }
    }
    if constexpr (P::kSoftmax) {
      if constexpr (!kBackward) follow_exponents(logits, reference, sums, z);
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
#pragma unroll
        for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            logits[band][n][i] = fast_exp2(logits[band][n][i] - reference[band][i / 2]);
          }
        }
      }
    }
  }

  // The positions j0 … j0 + kPart − 1 of a tile.
  __device__ void add(const SumTiles<P>& tiles, int stage, int j0, const FeatureScale& scale) {
    const Lane at;
    float features[kBands][kPart / 8][4] = {};
    project(tiles.x[stage], j0, features);
    weigh(tiles.column + j0, scale, features);
#pragma unroll
    for (int pair = 0; pair < kPart / kTile; ++pair) {
      uint32_t left[kBands][4];
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
        narrow_left(features[band][2 * pair], features[band][2 * pair + 1], left[band]);
      }
#pragma unroll
      for (int n = 0; n < P::kColumns; n += 2) {
        uint32_t f[4];
        load_right_transposed<P::kStride>(f, tiles.y[stage], j0 + pair * kTile, n * 8);
#pragma unroll
        for (int band = 0; band < kBands; ++band) {
          mma_bf16(sums[band][n], left[band], f[0], f[1]);
          mma_bf16(sums[band][n + 1], left[band], f[2], f[3]);
        }
      }
      uint32_t e[2] = {0, 0};  // the first two of eight columns
      if (at.g < 2) {
        const auto* extra = reinterpret_cast<const uint32_t*>(tiles.extra[at.g] + j0 + pair * kTile);
        e[0] = extra[at.t], e[1] = extra[at.t + 4];
      }
#pragma unroll
      for (int band = 0; band < kBands; ++band) mma_bf16(z[band], left[band], e[0], e[1]);
    }
  }

  __device__ void store(const LinearAttentionArguments& a, int64_t slot, int features) const {
    const Lane at;
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t m = (slot * a.heads + blockIdx.x) * features + m0 + band * kTile + at.g + 8 * i;
#pragma unroll
        for (int n = 0; n < P::kColumns; ++n) {
          *reinterpret_cast<float2*>(a.partial + m * P::kWidth + n * 8 + 2 * at.t) =
              make_float2(sums[band][n][2 * i], sums[band][n][2 * i + 1]);
        }
        if (at.t == 0) {
          a.partial_z[m] = z[band][2 * i] + z[band][2 * i + 1];
          if constexpr (P::kSoftmax && !kBackward) a.partial_largest[m] = reference[band][i];
        }
      }
    }
  }
};

// Block (head, chunk, row).
template <class P, bool kBackward>
__global__ void __launch_bounds__(P::kSumThreads)
    sums_kernel(LinearAttentionArguments a, FeatureScale scale, int features) {
  auto& tiles = *dynamic_shared<SumTiles<P>>();
  const int row = static_cast<int>(blockIdx.z),
            chunk = static_cast<int>(blockIdx.y) * static_cast<int>(a.chunk);
  const Span span = kBackward ? query_span(a, row) : key_span(a, row);
  if (chunk >= span.length) return;
  const SumProblem<P, kBackward> problem(a, span, chunk);
  problem.fetch(tiles, 0);
  copy_async_commit();
  FeatureBands<P, kBackward> bands(a, a.largest + (row * a.heads + blockIdx.x) * features);
  for (int tile = 0; tile * kSumPositions < problem.count; ++tile) {
    copy_async_wait<0>();
    __syncthreads();  // the tile is there, and all warps have done with the other
    if ((tile + 1) * kSumPositions < problem.count) problem.fetch(tiles, tile + 1);
    copy_async_commit();
    problem.prepare(tiles, tile, scale);
    __syncthreads();
#pragma unroll 1
    for (int j0 = 0; j0 < kSumPositions && tile * kSumPositions + j0 < problem.count; j0 += P::kPart) {
      bands.add(tiles, tile % 2, j0, scale);
    }
  }
  bands.store(a, span.begin / a.chunk + row + blockIdx.y, features);
}

template <bool kBackward>
int sums_launch(const LinearAttentionArguments& a, CudaStream stream) {
  return choose_linear_plan(a, [&](auto plan) {
    using P = decltype(plan);
    const auto on = static_cast<cudaStream_t>(stream);
    const auto features = static_cast<int>(linear_padded_features(P::kSoftmax, a.features, a.width));
    const dim3 threads(static_cast<unsigned>(features / (kTile * P::kBands) * 32));
    start_kernel(sums_kernel<P, kBackward>, {chunk_grid(a, kBackward), threads, on, sizeof(SumTiles<P>)}, a,
                 FeatureScale(a), features);
    const dim3 grid(static_cast<unsigned>(a.heads), static_cast<unsigned>(a.rows));
    start_kernel(combine_kernel<P, kBackward>, {grid, dim3(CombinePlan<P>::kThreads), on}, a, features);
  });
}

const bool registered = (linear_attention_key_sums_cuda = sums_launch<false>,
                         linear_attention_query_sums_cuda = sums_launch<true>, true);

}  // namespace
}  // namespace lra
