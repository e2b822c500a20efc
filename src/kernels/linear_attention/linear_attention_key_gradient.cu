// Gradients of keys and values from the sums over queries (linear_attention_arguments.h):
//
//   dφ(k_j)_m = dS_m·v_j + dz_m          d_v_j = Σ_m φ(k_j)_m dS_m
//   d_k_j = Σ_m dφ_jm φ'_jm   (softmax)  = Σ_m dφ_jm φ_jm (c ω_m − c² k_j)
//
// A warp has 16 keys for its own and goes through the features; ω and dS of the block's row and head are in
// shared memory.
#include "kernels/linear_attention/linear_attention_head.cuh"

namespace lra {
namespace {

template <class P>
size_t shared_bytes(int features) {  // a warp has tiles of k, of v and of what is stored
  return HeadState<P>::bytes(features) + 3 * P::kRowWarps * kTile * P::kStride * sizeof(Bf16);
}

// 16 keys of a warp.
template <class P>
struct KeyGradient {
  uint32_t k[P::kSteps][4], v[P::kSteps][4];
  float exponent[2] = {};  // −‖c k‖²/2 of the keys g and g + 8
  float sum[2] = {};       // Σ_m dφ φ; the lane's share until `finish`
  float d_k[P::kColumns][4] = {}, d_v[P::kColumns][4] = {};

  __device__ KeyGradient(const Bf16* k_tile, const Bf16* v_tile, const FeatureScale& scale) {
#pragma unroll
    for (int step = 0; step < P::kSteps; ++step) {
      load_left<P::kStride>(k[step], k_tile, 0, step * kTile);
      load_left<P::kStride>(v[step], v_tile, 0, step * kTile);
      if constexpr (P::kSoftmax) {
#pragma unroll
        for (int i = 0; i < 4; ++i) exponent[i % 2] += pair_square(k[step][i]);
      }
    }
    if constexpr (P::kSoftmax) {
#pragma unroll
      for (int i = 0; i < 2; ++i) exponent[i] = -scale.square * quad_sum(exponent[i]);
    }
  }

  // The features m0 … m0 + 15.
  __device__ void add(const HeadState<P>& head, int m0, int step, const FeatureScale& scale) {
    const Lane at;
    float phi[2][4] = {}, d_phi[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float2 d_z = *reinterpret_cast<const float2*>(head.z + m0 + n * 8 + 2 * at.t);
      d_phi[n][0] = d_phi[n][2] = d_z.x;
      d_phi[n][1] = d_phi[n][3] = d_z.y;
    }
    if constexpr (!P::kSoftmax) widen_left(k[step], phi[0], phi[1]);
#pragma unroll
    for (int s = 0; s < P::kSteps; ++s) {
      uint32_t f[4];
      if constexpr (P::kSoftmax) {
        load_right<P::kStride>(f, head.omega, m0, s * kTile);
        mma_bf16(phi[0], k[s], f[0], f[1]);
        mma_bf16(phi[1], k[s], f[2], f[3]);
      }
      load_right<P::kStride>(f, head.sums, m0, s * kTile);
      mma_bf16(d_phi[0], v[s], f[0], f[1]);
      mma_bf16(d_phi[1], v[s], f[2], f[3]);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float2 l = make_float2(0, 0);
      if constexpr (P::kSoftmax) l = *reinterpret_cast<const float2*>(head.largest + m0 + n * 8 + 2 * at.t);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = phi[n][i];
        if constexpr (P::kSoftmax) {
          phi[n][i] = fast_exp2(fmaf(x, scale.slope, exponent[i / 2] - (i % 2 ? l.y : l.x)));
          d_phi[n][i] *= phi[n][i];
          sum[i / 2] += d_phi[n][i];
        } else {
          phi[n][i] = element_feature(scale.elu, x);
          d_k[2 * step + n][i] = d_phi[n][i] * element_slope(scale.elu, x, phi[n][i]);
        }
      }
    }
    uint32_t left[4], left_d[4];
    narrow_left(phi[0], phi[1], left);
    if constexpr (P::kSoftmax) narrow_left(d_phi[0], d_phi[1], left_d);
#pragma unroll
    for (int n = 0; n < P::kColumns; n += 2) {
      uint32_t f[4];
      load_right_transposed<P::kStride>(f, head.sums, m0, n * 8);
      mma_bf16(d_v[n], left, f[0], f[1]);
      mma_bf16(d_v[n + 1], left, f[2], f[3]);
      if constexpr (P::kSoftmax) {
        load_right_transposed<P::kStride>(f, head.omega, m0, n * 8);
        mma_bf16(d_k[n], left_d, f[0], f[1]);
        mma_bf16(d_k[n + 1], left_d, f[2], f[3]);
      }
    }
  }

  __device__ void finish(const FeatureScale& scale) {
    if constexpr (P::kSoftmax) {
#pragma unroll
      for (int i = 0; i < 2; ++i) sum[i] = scale.c * scale.c * quad_sum(sum[i]);
#pragma unroll
      for (int step = 0; step < P::kSteps; ++step) {
        float x[2][4];
        widen_left(k[step], x[0], x[1]);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            d_k[2 * step + n][i] = scale.c * d_k[2 * step + n][i] - sum[i / 2] * x[n][i];
          }
        }
      }
    }
  }
};

// Block (head, chunk, row).
template <class P>
__global__ void __launch_bounds__(P::kRowWarps * 32)
    key_gradient_kernel(LinearAttentionArguments a, FeatureScale scale, int features) {
  const int64_t here = blockIdx.x * a.width;
  zero_gap(a, a.d_k, a.stride);
  zero_gap(a, a.d_v, a.stride);
  const Chunk chunk(a, key_span(a, static_cast<int>(blockIdx.z)));
  if (chunk.count <= 0) return;
  const int64_t begin = chunk.begin;
  const int count = chunk.count;
  const HeadState<P> head(a, features, a.d_sums, a.d_z, INFINITY);
  const Lane at;
  const int warp = static_cast<int>(threadIdx.x) / 32, width = static_cast<int>(a.width);
  Bf16* k_tile = head.rest + warp * 3 * kTile * P::kStride;
  Bf16 *v_tile = k_tile + kTile * P::kStride, *staging = v_tile + kTile * P::kStride;
  const auto fetch = [&](int j0) {
    copy_positions<kTile, P>(k_tile, static_cast<const Bf16*>(a.k) + here, a.stride, begin + j0, count - j0,
                             width, at.lane, 32);
    copy_positions<kTile, P>(v_tile, static_cast<const Bf16*>(a.v) + here, a.stride, begin + j0, count - j0,
                             width, at.lane, 32);
    copy_async_commit();
  };
  fetch(warp * kTile);
  copy_async_wait<0>();
  __syncthreads();
  for (int j0 = warp * kTile; j0 < count; j0 += P::kRowWarps * kTile) {
    copy_async_wait<0>();
    __syncwarp();
    KeyGradient<P> gradient(k_tile, v_tile, scale);
    __syncwarp();
    if (j0 + P::kRowWarps * kTile < count) fetch(j0 + P::kRowWarps * kTile);
    if constexpr (P::kSoftmax) {
#pragma unroll 1
      for (int m0 = 0; m0 < features; m0 += kTile) gradient.add(head, m0, 0, scale);
    } else {
#pragma unroll
      for (int step = 0; step < P::kSteps; ++step) gradient.add(head, step * kTile, step, scale);
    }
    gradient.finish(scale);
    stage<P>(staging, gradient.d_k);
    __syncwarp();
    store_positions<kTile, P>(staging, static_cast<Bf16*>(a.d_k) + here, a.stride, begin + j0, count - j0,
                              width);
    __syncwarp();
    stage<P>(staging, gradient.d_v);
    __syncwarp();
    store_positions<kTile, P>(staging, static_cast<Bf16*>(a.d_v) + here, a.stride, begin + j0, count - j0,
                              width);
  }
}

int key_gradient_launch(const LinearAttentionArguments& a, CudaStream stream) {
  return choose_linear_plan(a, [&](auto plan) {
    using P = decltype(plan);
    const auto features = static_cast<int>(linear_padded_features(P::kSoftmax, a.features, a.width));
    start_kernel(key_gradient_kernel<P>,
                 {chunk_grid(a, false), dim3(P::kRowWarps * 32), static_cast<cudaStream_t>(stream),
                  shared_bytes<P>(features)},
                 a, FeatureScale(a), features);
  });
}

const bool registered = (linear_attention_key_gradient_cuda = key_gradient_launch, true);

}  // namespace
}  // namespace lra
