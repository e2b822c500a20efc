#pragma once
#include <cstdint>

#include "kernels/linear_attention/feature_map_cpu.h"

namespace lra {

// One (row, head). Positions of q are `q_stride` elements apart, those of k and v `stride`, of `out` and its
// gradient `out_stride`. Gradients lie as their tensors do.
template <class T>
struct LinearAttentionHead {
  const T *q, *k, *v;
  T* out;
  T* denominator;  // [queries]
  T* state;        // [M, P] + [M] + [M]: S, z, and the exponents taken out of the keys; kept where not causal
  int64_t queries, length, width, q_stride, stride, out_stride;
  FeatureParameters<T> features;
  bool causal;  // then queries = length
};

template <class T>
struct LinearAttentionHeadGradient {
  const T* d_out;  // overwrites d_q, d_k, d_v
  T *d_q, *d_k, *d_v;
};

int64_t linear_attention_state(int64_t features, int64_t width);
// Elements of scratch that a head needs, aligned to 64 bytes.
int64_t linear_attention_scratch(int64_t length, int64_t features, int64_t width);

template <class T>
void linear_attention_forward_cpu(const LinearAttentionHead<T>& head, T* scratch);
template <class T>
void linear_attention_backward_cpu(const LinearAttentionHead<T>& head,
                                   const LinearAttentionHeadGradient<T>& gradient, T* scratch);

}  // namespace lra
