// The gradient of queries (linear_attention_arguments.h), from the sums over keys:
//
//   δ_i = d_out_i·(out_i − mean) = Σ_m ψ_im A_im − (d_out_i·mean) ε/den_i     A_im = S'_m·d_out_i,  ψ = φ/den
//   dφ(q_i)_m = (A_im − δ_i z_m) / den_i
//   d_q_i = Σ_m dφ_im φ'_im     (softmax)  = c Σ_m ψ_im (A_im − δ_i z_m) ω_m
//
// δ is not known before the last feature. So d_q is summed with an estimate e of it, U = Σ_m ψ (A − e z) ω,
// and what the estimate misses is taken off at the end, d_q = U − (δ − e) W with W = Σ_m ψ z ω. The estimate
// of the softmax map is made of the rounded output, so that only small differences are rounded; other maps
// round neither U nor W and need none (e = 0).
//
// A warp has 16 queries for its own and goes through the features.
#include "kernels/linear_attention/linear_attention_head.cuh"

namespace lra {
namespace {

template <class P>
struct GradientPlan {
  static constexpr int kTiles = P::kSoftmax ? 4 : 3;  // of a warp: what is stored, q, d_out and out
  static constexpr size_t bytes(int features) {
    return HeadState<P>::bytes(features) + kTiles * P::kRowWarps * kTile * P::kStride * sizeof(Bf16);
  }
};

// 16 queries of a warp.
template <class P>
struct QueryGradient {
  uint32_t q[P::kSteps][4], d_out[P::kSteps][4];
  float normaliser[2];     // of the queries g and g + 8
  float delta[2] = {};     // the lane's share until `finish`
  float estimate[2] = {};  // of delta
  float u[P::kColumns][4] = {}, w[P::kColumns][4] = {};

  // tiles: q, d_out and, for the softmax map, out
  __device__ QueryGradient(const HeadState<P>& head, const Bf16* tiles, const float* n, int count) {
    const Lane at;
    constexpr int kNext = kTile * P::kStride;
#pragma unroll
    for (int step = 0; step < P::kSteps; ++step) {
      load_left<P::kStride>(q[step], tiles, 0, step * kTile);
      load_left<P::kStride>(d_out[step], tiles + kNext, 0, step * kTile);
      if constexpr (P::kSoftmax) {
        uint32_t out[4];
        load_left<P::kStride>(out, tiles + 2 * kNext, 0, step * kTile);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 mean =
              *reinterpret_cast<const float2*>(head.mean + step * kTile + i / 2 * 8 + 2 * at.t);
          estimate[i % 2] += low_half(d_out[step][i]) * (low_half(out[i]) - mean.x) +
                             high_half(d_out[step][i]) * (high_half(out[i]) - mean.y);
        }
      }
    }
    if constexpr (P::kSoftmax) {
#pragma unroll
      for (int i = 0; i < 2; ++i) estimate[i] = quad_sum(estimate[i]);
    }
    normaliser[0] = at.g < count ? n[at.g] : 0;
    normaliser[1] = at.g + 8 < count ? n[at.g + 8] : 0;
  }

  // The features m0 … m0 + 15.
  __device__ void add(const HeadState<P>& head, int m0, int step, const FeatureScale& scale) {
    const Lane at;
    float x[2][4] = {}, projected[2][4] = {};  // A
    if constexpr (!P::kSoftmax) widen_left(q[step], x[0], x[1]);
#pragma unroll
    for (int s = 0; s < P::kSteps; ++s) {
      uint32_t f[4];
      if constexpr (P::kSoftmax) {
        load_right<P::kStride>(f, head.omega, m0, s * kTile);
        mma_bf16(x[0], q[s], f[0], f[1]);
        mma_bf16(x[1], q[s], f[2], f[3]);
      }
      load_right<P::kStride>(f, head.sums, m0, s * kTile);
      mma_bf16(projected[0], d_out[s], f[0], f[1]);
      mma_bf16(projected[1], d_out[s], f[2], f[3]);
    }
    float with_z[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int m = m0 + n * 8 + 2 * at.t;
      const float2 z = *reinterpret_cast<const float2*>(head.z + m);
      float2 l = make_float2(0, 0);
      if constexpr (P::kSoftmax) l = *reinterpret_cast<const float2*>(head.largest + m);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float norm = normaliser[i / 2];
        float psi, slope;  // φ / den, and that with φ' for φ
        if constexpr (P::kSoftmax) {
          slope = psi = fast_exp2(fmaf(x[n][i], scale.slope, (i % 2 ? l.y : l.x) - norm));
        } else {
          const float phi = element_feature(scale.elu, x[n][i]);
          psi = phi * norm;
          slope = element_slope(scale.elu, x[n][i], phi) * norm;
        }
        delta[i / 2] = fmaf(psi, projected[n][i], delta[i / 2]);
        projected[n][i] = slope * (projected[n][i] - estimate[i / 2] * (i % 2 ? z.y : z.x));
        with_z[n][i] = slope * (i % 2 ? z.y : z.x);
      }
    }
    if constexpr (!P::kSoftmax) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) u[2 * step + n][i] = projected[n][i], w[2 * step + n][i] = with_z[n][i];
      }
    } else {
      uint32_t left_u[4], left_w[4];
      narrow_left(projected[0], projected[1], left_u);
      narrow_left(with_z[0], with_z[1], left_w);
#pragma unroll
      for (int n = 0; n < P::kColumns; n += 2) {
        uint32_t f[4];
        load_right_transposed<P::kStride>(f, head.omega, m0, n * 8);
        mma_bf16(u[n], left_u, f[0], f[1]);
        mma_bf16(u[n + 1], left_u, f[2], f[3]);
        mma_bf16(w[n], left_w, f[0], f[1]);
        mma_bf16(w[n + 1], left_w, f[2], f[3]);
      }
    }
  }

  // u becomes d_q.
  __device__ void finish(const HeadState<P>& head, const FeatureScale& scale) {
    const Lane at;
    if constexpr (!P::kSoftmax) {
      // ε is nothing beside a denominator over 1.
      const bool matters = normaliser[0] > 1 || normaliser[1] > 1;
      if (scale.epsilon > 0 && __any_sync(kAllLanes, matters)) {
#pragma unroll
        for (int step = 0; step < P::kSteps; ++step) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float2 mean =
                *reinterpret_cast<const float2*>(head.mean + step * kTile + i / 2 * 8 + 2 * at.t);
            const float along = low_half(d_out[step][i]) * mean.x + high_half(d_out[step][i]) * mean.y;
            delta[i % 2] -= along * scale.epsilon * normaliser[i % 2];
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) delta[i] = quad_sum(delta[i]);
    const float factor = P::kSoftmax ? scale.c : 1;
#pragma unroll
    for (int n = 0; n < P::kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) u[n][i] = factor * (u[n][i] - (delta[i / 2] - estimate[i / 2]) * w[n][i]);
    }
  }
};

// Block (head, chunk, row).
template <class P>
__global__ void __launch_bounds__(P::kRowWarps * 32)
    query_gradient_kernel(LinearAttentionArguments a, FeatureScale scale, int features) {
  const int64_t here = blockIdx.x * a.width, out_stride = a.heads * a.width;
  if (!a.first) zero_gap(a, a.d_q, a.q_stride);
  const Chunk chunk(a, query_span(a, static_cast<int>(blockIdx.z)));
  if (chunk.count <= 0) return;
  const int64_t begin = chunk.begin;
  const int count = chunk.count;
  const int64_t statistics = blockIdx.x * a.queries + begin;
  const HeadState<P> head(a, features, a.sums, a.z, -INFINITY);
  const Lane at;
  const int warp = static_cast<int>(threadIdx.x) / 32, width = static_cast<int>(a.width);
  constexpr int kNext = kTile * P::kStride;
  Bf16* staging = head.rest + warp * GradientPlan<P>::kTiles * kNext;
  Bf16* tiles = staging + kNext;
  const auto fetch = [&](int i0) {
    const auto copy = [&](Bf16* tile, const void* tensor, int64_t stride) {
      copy_positions<kTile, P>(tile, static_cast<const Bf16*>(tensor) + here, stride, begin + i0, count - i0,
                               width, at.lane, 32);
    };
    copy(tiles, a.q, a.q_stride);
    copy(tiles + kNext, a.d_out, out_stride);
    if constexpr (P::kSoftmax) copy(tiles + 2 * kNext, a.out, out_stride);
    copy_async_commit();
  };
  fetch(warp * kTile);
  copy_async_wait<0>();
  __syncthreads();
  for (int i0 = warp * kTile; i0 < count; i0 += P::kRowWarps * kTile) {
    copy_async_wait<0>();
    __syncwarp();
    QueryGradient<P> gradient(head, tiles, a.normaliser + statistics + i0, count - i0);
    __syncwarp();
    if (i0 + P::kRowWarps * kTile < count) fetch(i0 + P::kRowWarps * kTile);
    if constexpr (P::kSoftmax) {
#pragma unroll 1
      for (int m0 = 0; m0 < features; m0 += kTile) gradient.add(head, m0, 0, scale);
    } else {
#pragma unroll
      for (int step = 0; step < P::kSteps; ++step) gradient.add(head, step * kTile, step, scale);
    }
    gradient.finish(head, scale);
    stage<P>(staging, gradient.u);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int q = i0 + at.g + 8 * i;
      if (at.t == 0 && q < count) a.delta[statistics + q] = gradient.delta[i];
    }
    __syncwarp();
    store_positions<kTile, P>(staging, static_cast<Bf16*>(a.d_q) + here, a.q_stride, begin + i0, count - i0,
                              width);
  }
}

int query_gradient_launch(const LinearAttentionArguments& a, CudaStream stream) {
  return choose_linear_plan(a, [&](auto plan) {
    using P = decltype(plan);
    const auto features = static_cast<int>(linear_padded_features(P::kSoftmax, a.features, a.width));
    start_kernel(query_gradient_kernel<P>,
                 {chunk_grid(a, true), dim3(P::kRowWarps * 32), static_cast<cudaStream_t>(stream),
                  GradientPlan<P>::bytes(features)},
                 a, FeatureScale(a), features);
  });
}

const bool registered = (linear_attention_query_gradient_cuda = query_gradient_launch, true);

}  // namespace
}  // namespace lra
