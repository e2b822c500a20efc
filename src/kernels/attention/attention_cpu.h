#pragma once
#include <cstdint>

#include "kernels/dropout/bits.h"

namespace lra {

// One (row, head): `queries` queries, the first of the row, against `length` keys. Positions of q, k, v and
// their gradients are `stride` elements apart, those of `out` and its gradient `out_stride`.
template <class T>
struct AttentionHead {
  const T *q, *k, *v;
  T* out;
  T* lse;  // [queries] log-sum-exp of the scaled scores
  int64_t queries, length, width, stride, out_stride;
  bool causal;  // query i sees keys 0 … i
  T scale;
  // dropout: position of weight (i, 0) is first + i·2^20; rate.threshold 0 for none
  uint64_t seed, stream, first;
  DropoutRate rate;
};

template <class T>
struct AttentionHeadGradient {
  const T* d_out;  // overwrites d_q, d_k, d_v
  T *d_q, *d_k, *d_v;
};

// Elements of scratch that a head of this length needs, aligned to 64 bytes.
int64_t attention_scratch(int64_t length, int64_t width);

void attention_forward_cpu(const AttentionHead<float>& head, float* scratch);
void attention_forward_cpu(const AttentionHead<double>& head, double* scratch);
void attention_backward_cpu(const AttentionHead<float>& head, const AttentionHeadGradient<float>& gradient,
                            float* scratch);
void attention_backward_cpu(const AttentionHead<double>& head, const AttentionHeadGradient<double>& gradient,
                            double* scratch);

}  // namespace lra
