// Queries against the sums over keys (linear_attention_arguments.h), features never stored:
//
//   out_i = mean (1 − ε/den_i) + S'ᵀ φ(q_i) / den_i           den_i = z·φ(q_i) + ε,   S' = S − z meanᵀ
//
// A warp has 16 or 32 queries for its own and goes through the features; ω and S' of the block's row and head
// are in shared memory. Warps wait for none of the others.
#include "kernels/linear_attention/linear_attention_head.cuh"

namespace lra {
namespace {

template <class P>
struct ForwardPlan {
  static constexpr int kBands = P::kWidth > 64 ? 1 : 2, kRows = kBands * kTile;  // queries of a warp
  static constexpr int kFeatures = P::kSoftmax ? 32 : kTile;                     // features at a time
  static constexpr size_t bytes(int features) {
    return HeadState<P>::bytes(features) + 2 * P::kRowWarps * kRows * P::kStride * sizeof(Bf16);
  }
};

// The queries of a warp and what they have gathered.
template <class P>
struct QueryBands {
  static constexpr int kBands = ForwardPlan<P>::kBands, kGroups = ForwardPlan<P>::kFeatures / 8;
  uint32_t q[kBands][P::kSteps][4];
  float reference[kBands][2];
  float out[kBands][P::kColumns][4] = {}, den[kBands][4] = {};

  __device__ explicit QueryBands(const Bf16* tile) {
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
      reference[band][0] = reference[band][1] = -INFINITY;
#pragma unroll
      for (int step = 0; step < P::kSteps; ++step) {
        load_left<P::kStride>(q[band][step], tile, band * kTile, step * kTile);
      }
    }
  }

  // φ(q) of the features m0 …; step: m0 / 16, known to the compiler where the map is elementwise
  __device__ void features(const HeadState<P>& head, int m0, int step, const FeatureScale& scale,
                           float (&x)[kBands][kGroups][4]) {
    if constexpr (!P::kSoftmax) {
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
        widen_left(q[band][step], x[band][0], x[band][1]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[band][0][i] = element_feature(scale.elu, x[band][0][i]);
          x[band][1][i] = element_feature(scale.elu, x[band][1][i]);
        }
      }
    } else {
#pragma unroll
      for (int s = 0; s < P::kSteps; ++s) {
#pragma unroll
        for (int n = 0; n < kGroups; n += 2) {
          uint32_t f[4];
          load_right<P::kStride>(f, head.omega, m0 + n * 8, s * kTile);
#pragma unroll
          for (int band = 0; band < kBands; ++band) {
            mma_bf16(x[band][n], q[band][s], f[0], f[1]);
            mma_bf16(x[band][n + 1], q[band][s], f[2], f[3]);
          }
        }
      }
      const Lane at;
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
        const float2 l = *reinterpret_cast<const float2*>(head.largest + m0 + n * 8 + 2 * at.t);
#pragma unroll
        for (int band = 0; band < kBands; ++band) {
#pragma unroll
          for (int i = 0; i < 4; ++i) x[band][n][i] = fmaf(x[band][n][i], scale.slope, i % 2 ? l.y : l.x);
        }
      }
      follow_exponents(x, reference, out, den);
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
#pragma unroll
        for (int n = 0; n < kGroups; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) x[band][n][i] = fast_exp2(x[band][n][i] - reference[band][i / 2]);
        }
      }
    }
  }

  __device__ void add(const HeadState<P>& head, int m0, int step, const FeatureScale& scale) {
    const Lane at;
    float x[kBands][kGroups][4] = {};
    features(head, m0, step, scale, x);
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      uint32_t left[kBands][4];
#pragma unroll
      for (int band = 0; band < kBands; ++band) narrow_left(x[band][n], x[band][n + 1], left[band]);
      const int k0 = m0 + n * 8;
#pragma unroll
      for (int column = 0; column < P::kColumns; column += 2) {
        uint32_t f[4];
        load_right_transposed<P::kStride>(f, head.sums, k0, column * 8);
#pragma unroll
        for (int band = 0; band < kBands; ++band) {
          mma_bf16(out[band][column], left[band], f[0], f[1]);
          mma_bf16(out[band][column + 1], left[band], f[2], f[3]);
        }
      }
      uint32_t z[2];
      load_tiles_transposed(z, head.sums + (k0 + at.lane % 16) * P::kStride + P::kWidth);
#pragma unroll
      for (int band = 0; band < kBands; ++band) mma_bf16(den[band], left[band], z[0], z[1]);
    }
  }

  // The quotient, in place; the normaliser of the thread's queries, g and g + 8 of each band.
  __device__ void divide(const HeadState<P>& head, const FeatureScale& scale,
                         float (&normaliser)[kBands][2]) {
    const Lane at;
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // z is in the first two of eight columns, both with the first of four lanes.
        const float sum =
            __shfl_sync(kAllLanes, den[band][2 * i] + den[band][2 * i + 1], at.lane / 4 * 4) + scale.epsilon;
        const float inverse = 1 / sum, share = 1 - scale.epsilon * inverse;
        normaliser[band][i] = P::kSoftmax ? reference[band][i] + log2f(sum) : inverse;
#pragma unroll
        for (int n = 0; n < P::kColumns; ++n) {
          const float2 mean = *reinterpret_cast<const float2*>(head.mean + n * 8 + 2 * at.t);
          out[band][n][2 * i] = fmaf(out[band][n][2 * i], inverse, mean.x * share);
          out[band][n][2 * i + 1] = fmaf(out[band][n][2 * i + 1], inverse, mean.y * share);
        }
      }
    }
  }
};

// Block (head, chunk, row).
template <class P>
__global__ void __launch_bounds__(P::kRowWarps * 32)
    queries_kernel(LinearAttentionArguments a, FeatureScale scale, int features) {
  using F = ForwardPlan<P>;
  const int64_t here = blockIdx.x * a.width, out_stride = a.heads * a.width;
  if (!a.first) zero_gap(a, a.out, out_stride);
  const Chunk chunk(a, query_span(a, static_cast<int>(blockIdx.z)));
  if (chunk.count <= 0) return;
  const int64_t begin = chunk.begin;
  const int count = chunk.count;
  const HeadState<P> head(a, features, a.sums, a.z, -INFINITY);
  const Lane at;
  const int warp = static_cast<int>(threadIdx.x) / 32, width = static_cast<int>(a.width);
  Bf16* tile = head.rest + warp * 2 * F::kRows * P::kStride;
  Bf16* staging = tile + F::kRows * P::kStride;
  const auto fetch = [&](int i0) {
    copy_positions<F::kRows, P>(tile, static_cast<const Bf16*>(a.q) + here, a.q_stride, begin + i0,
                                count - i0, width, at.lane, 32);
    copy_async_commit();
  };
  fetch(warp * F::kRows);
  copy_async_wait<0>();
  __syncthreads();
  for (int i0 = warp * F::kRows; i0 < count; i0 += P::kRowWarps * F::kRows) {
    copy_async_wait<0>();
    __syncwarp();
    QueryBands<P> queries(tile);
    __syncwarp();
    if (i0 + P::kRowWarps * F::kRows < count) fetch(i0 + P::kRowWarps * F::kRows);
    if constexpr (P::kSoftmax) {
#pragma unroll 1
      for (int m0 = 0; m0 < features; m0 += F::kFeatures) queries.add(head, m0, 0, scale);
    } else {
#pragma unroll
      for (int step = 0; step < P::kSteps; ++step) queries.add(head, step * kTile, step, scale);
    }
    float normaliser[F::kBands][2];
    queries.divide(head, scale, normaliser);
#pragma unroll
    for (int band = 0; band < F::kBands; ++band) {
      stage<P>(staging + band * kTile * P::kStride, queries.out[band]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int q = i0 + band * kTile + at.g + 8 * i;
        if (at.t == 0 && q < count) a.normaliser[blockIdx.x * a.queries + begin + q] = normaliser[band][i];
      }
    }
    __syncwarp();
    store_positions<F::kRows, P>(staging, static_cast<Bf16*>(a.out) + here, out_stride, begin + i0,
                                 count - i0, width);
  }
}

int queries_launch(const LinearAttentionArguments& a, CudaStream stream) {
  return choose_linear_plan(a, [&](auto plan) {
    using P = decltype(plan);
    const auto features = static_cast<int>(linear_padded_features(P::kSoftmax, a.features, a.width));
    start_kernel(queries_kernel<P>,
                 {chunk_grid(a, true), dim3(P::kRowWarps * 32), static_cast<cudaStream_t>(stream),
                  ForwardPlan<P>::bytes(features)},
                 a, FeatureScale(a), features);
  });
}

const bool registered = (linear_attention_queries_cuda = queries_launch, true);

}  // namespace
}  // namespace lra
