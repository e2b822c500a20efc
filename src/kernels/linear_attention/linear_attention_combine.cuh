// The sums of a row's chunks (linear_attention_sums.cu) added up, always in the same order:
//
//   forward    S, z → S − z meanᵀ, rounded, with z behind it;  mean = Σ_m S_m / Σ_m z_m
//   backward   dS rounded;  dz_m = −Σ_i ψ_im δ_i − dS_m·mean    (δ_i was taken against the mean)
#pragma once
#include "kernels/linear_attention/linear_attention_tiles.cuh"

namespace lra {

template <class P>
struct CombinePlan {
  static constexpr int kThreads = P::kSoftmax ? 512 : 256;
  static constexpr int kQuads = P::kWidth / 4;     // a thread has four columns
  static constexpr int kRows = kThreads / kQuads;  // of so many features at a time
  static constexpr int kTurns = (P::kMostFeatures + kRows - 1) / kRows;
};

// Block (head, row). Features beyond M get sums of zero.
template <class P, bool kBackward>
__global__ void __launch_bounds__(CombinePlan<P>::kThreads)
    combine_kernel(LinearAttentionArguments a, int features) {
  using C = CombinePlan<P>;
  constexpr bool kScaled = P::kSoftmax && !kBackward;
  __shared__ float largest[P::kMostFeatures], z[P::kMostFeatures], mean[P::kWidth], total;
  // Forward: a sum over features for each thread and column. Backward: a sum over columns for each feature
  // and thread.
  constexpr int kParts = kBackward ? P::kMostFeatures * (C::kQuads + 1) : C::kRows * P::kWidth;
  __shared__ float parts[kParts];
  const int thread = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.y);
  const Span span = kBackward ? query_span(a, row) : key_span(a, row);
  const int chunks = static_cast<int>((span.length + a.chunk - 1) / a.chunk);
  const int64_t step = a.heads * features;  // from slot to slot
  const int64_t first = (span.begin / a.chunk + row) * step + static_cast<int64_t>(blockIdx.x) * features;
  const int64_t state = (static_cast<int64_t>(row) * a.heads + blockIdx.x) * features;
  for (int m = thread; m < features; m += C::kThreads) {
    float most = -INFINITY, sum = 0;
    if constexpr (kScaled) {
      for (int c = 0; c < chunks; ++c) most = fmaxf(most, a.partial_largest[first + c * step + m]);
    }
    for (int c = 0; c < chunks; ++c) {
      const int64_t at = first + c * step + m;
      sum += kScaled ? a.partial_z[at] * fast_exp2(a.partial_largest[at] - most) : a.partial_z[at];
    }
    const bool real = m < a.features;
    largest[m] = most;
    z[m] = real ? sum : 0;
    if constexpr (!kBackward) {
      a.z[state + m] = real ? sum : 0;
      if constexpr (kScaled) a.largest[state + m] = real ? most : -INFINITY;
    }
  }
  if constexpr (kBackward) {
    for (int p = thread; p < P::kWidth; p += C::kThreads) {
      mean[p] = a.mean[(static_cast<int64_t>(row) * a.heads + blockIdx.x) * P::kWidth + p];
    }
  }
  __syncthreads();

  const int quad = thread % C::kQuads, m0 = thread / C::kQuads;
  float sums[C::kTurns][4] = {};
  const auto feature = [&](int turn) { return m0 + turn * C::kRows; };
  const auto mine = [&](int turn) { return m0 < C::kRows && feature(turn) < features; };
  for (int c = 0; c < chunks; ++c) {
#pragma unroll
    for (int turn = 0; turn < C::kTurns; ++turn) {
      if (!mine(turn) || feature(turn) >= a.features) continue;
      const int64_t at = first + c * step + feature(turn);
      const float4 x = *reinterpret_cast<const float4*>(a.partial + at * P::kWidth + quad * 4);
      const float factor = kScaled ? fast_exp2(a.partial_largest[at] - largest[feature(turn)]) : 1;
      sums[turn][0] += factor * x.x, sums[turn][1] += factor * x.y;
      sums[turn][2] += factor * x.z, sums[turn][3] += factor * x.w;
    }
  }

  if constexpr (!kBackward) {  // mean = Σ_m S_m / Σ_m z_m
    if (m0 < C::kRows) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sum = 0;
        for (int turn = 0; turn < C::kTurns; ++turn) sum += sums[turn][i];
        parts[m0 * P::kWidth + quad * 4 + i] = sum;
      }
    }
    if (thread < 32) {
      float sum = 0;
      for (int m = thread; m < features; m += 32) sum += z[m];
      for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kAllLanes, sum, d);
      if (thread == 0) total = sum;
    }
    __syncthreads();
    if (thread < P::kWidth) {
      float sum = 0;
      for (int r = 0; r < C::kRows; ++r) sum += parts[r * P::kWidth + thread];
      mean[thread] = total == 0 ? 0 : sum / total;
      a.mean[(static_cast<int64_t>(row) * a.heads + blockIdx.x) * P::kWidth + thread] = mean[thread];
    }
    __syncthreads();
  }

  auto* out = static_cast<Bf16*>(kBackward ? a.d_sums : a.sums) + state * P::kStride;
#pragma unroll
  for (int turn = 0; turn < C::kTurns; ++turn) {
    if (!mine(turn)) continue;
    const int m = feature(turn);
    if constexpr (!kBackward) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[turn][i] -= z[m] * mean[quad * 4 + i];
    }
    const uint2 rounded =
        make_uint2(bf16_pair(sums[turn][0], sums[turn][1]), bf16_pair(sums[turn][2], sums[turn][3]));
    *reinterpret_cast<uint2*>(out + m * P::kStride + quad * 4) = rounded;
    if (quad == 0) {
      const uint32_t high = kBackward ? 0 : bf16_pair(z[m], 0);
      const uint32_t low = kBackward ? 0 : bf16_pair(z[m] - low_half(high), 0);
      *reinterpret_cast<uint4*>(out + m * P::kStride + P::kWidth) = make_uint4(high | low << 16, 0, 0, 0);
    }
    if constexpr (kBackward) {
      const float* at = mean + quad * 4;
      parts[m * (C::kQuads + 1) + quad] = low_half(rounded.x) * at[0] + high_half(rounded.x) * at[1] +
                                          low_half(rounded.y) * at[2] + high_half(rounded.y) * at[3];
    }
  }
  if constexpr (kBackward) {  // so far the sum of (φ(q_i)_m / den_i) δ_i: the mean's part is missing
    __syncthreads();
    for (int m = thread; m < features; m += C::kThreads) {
      float sum = 0;
      for (int i = 0; i < C::kQuads; ++i) sum += parts[m * (C::kQuads + 1) + i];
      a.d_z[state + m] = z[m] - sum;
    }
  }
}

}  // namespace lra
