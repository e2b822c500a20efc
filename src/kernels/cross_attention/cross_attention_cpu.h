#pragma once
#include <cstdint>

#include "kernels/dropout/bits.h"

namespace lra {

// One (row, head). Positions of q, k, v and out are q_stride, k_stride, v_stride, out_stride elements apart.
template <class T>
struct CrossAttentionHead {
  const T *q, *k, *v;
  const T* table;  // [n, n] rows table_stride apart, or null
  T* out;
  T* lse;  // [queries] log-sum-exp of the scores
  int64_t queries, keys, width, value_width, q_stride, k_stride, v_stride, out_stride, table_stride;
  T scale;
  bool causal;
  // dropout: position of weight (i, 0) is first + i·2^20; rate.threshold 0 for none
  uint64_t seed, stream, first;
  DropoutRate rate;
};

template <class T>
struct CrossAttentionHeadGradient {
  const T* d_out;      // as out
  T *d_q, *d_k, *d_v;  // overwritten; side by side: strides are those of contiguous [·, H, ·] tensors
  int64_t d_q_stride, d_k_stride, d_v_stride;
  T* d_table;  // added to, or null
};

// Elements of scratch that a head needs, aligned to 64 bytes.
int64_t cross_attention_scratch(int64_t keys, int64_t width, int64_t value_width);

template <class T>
void cross_attention_forward_cpu(const CrossAttentionHead<T>& head, T* scratch);
template <class T>
void cross_attention_backward_cpu(const CrossAttentionHead<T>& head,
                                  const CrossAttentionHeadGradient<T>& gradient, T* scratch);

}  // namespace lra
