// CPU side of cross_attention.h for one (row, head): see kernels/cpu.h for the rules of such files.
#include "kernels/cross_attention/cross_attention_cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/vector_math.h"

namespace lra {
namespace {

// Queries a block: a tile of scores stays within a megabyte of floats.
int64_t block_size(int64_t keys) {
  return std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(keys, 1), 16, 128);
}

int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// A tile of scores: rows of queries i0, i0 + 1, …, each `stride` long, a multiple of the vector width.
struct Tile {
  int64_t i0, rows, keys, stride;
  int64_t seen(int64_t i, bool causal) const { return causal ? i0 + i + 1 : keys; }
};

template <class T>
LRA_CPU_INLINE void dropout_row(T* row, const Tile& t, const CrossAttentionHead<T>& h, int64_t i,
                                uint16_t* bits) {
  dropout_bits_cpu(h.seed, h.stream, h.first + (static_cast<uint64_t>(t.i0 + i) << 20), t.stride, bits);
  const T scale = static_cast<T>(h.rate.scale);
  for (int64_t j = 0; j < t.stride; ++j) row[j] = bits[j] >= h.rate.threshold ? row[j] * scale : T(0);
}

// Scores → dropped weights; what is not seen gets exactly 0.
template <class T>
LRA_CPU_INLINE void weights_forward(T* s, const Tile& t, const CrossAttentionHead<T>& h, uint16_t* bits) {
  for (int64_t i = 0; i < t.rows; ++i) {
    T* row = s + i * t.stride;
    const int64_t seen = t.seen(i, h.causal);
    std::fill(row + seen, row + t.stride, -std::numeric_limits<T>::infinity());
    const T largest = lane_max(row, t.stride);
    for (int64_t j = 0; j < t.stride; ++j) row[j] = vexp(row[j] - largest);
    std::fill(row + seen, row + t.stride, T(0));
    const T sum = lane_sum(row, t.stride), inverse = T(1) / sum;
    h.lse[t.i0 + i] = largest + std::log(sum);
    for (int64_t j = 0; j < t.stride; ++j) row[j] *= inverse;
    if (h.rate.threshold != 0) dropout_row(row, t, h, i, bits);
  }
}

// From scores s and gradients g of the dropped weights: s ← dropped weights, g ← gradients of the scores,
// a∘(g∘keep − d_out·out).
template <class T>
LRA_CPU_INLINE void weights_backward(T* s, T* g, const Tile& t, const CrossAttentionHead<T>& h,
                                     const T* d_out, uint16_t* bits) {
  for (int64_t i = 0; i < t.rows; ++i) {
    T *weight = s + i * t.stride, *gradient = g + i * t.stride;
    const int64_t seen = t.seen(i, h.causal), at = (t.i0 + i) * h.out_stride;
    const T delta = lane_dot(h.out + at, d_out + at, h.value_width), lse = h.lse[t.i0 + i];
    if (h.rate.threshold != 0) dropout_row(gradient, t, h, i, bits);
    for (int64_t j = 0; j < t.stride; ++j) {
      weight[j] = vexp(weight[j] - lse);
      gradient[j] = weight[j] * (gradient[j] - delta);
    }
    std::fill(weight + seen, weight + t.stride, T(0));
    std::fill(gradient + seen, gradient + t.stride, T(0));
    if (h.rate.threshold != 0) {
      const T scale = static_cast<T>(h.rate.scale);
      for (int64_t j = 0; j < t.stride; ++j)
        weight[j] = bits[j] >= h.rate.threshold ? weight[j] * scale : T(0);
    }
  }
}

template <class T>
LRA_CPU_INLINE void add_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                             int64_t n) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* __restrict x = from + i * from_stride;
    T* __restrict y = to + i * to_stride;
    for (int64_t j = 0; j < n; ++j) y[j] += x[j];
  }
}

#define LRA_FOR_TYPE(T)                                                                                     \
  LRA_CPU_CLONES void forward_clones(T* s, const Tile& t, const CrossAttentionHead<T>& h, uint16_t* bits) { \
    weights_forward(s, t, h, bits);                                                                         \
  }                                                                                                         \
  LRA_CPU_CLONES void backward_clones(T* s, T* g, const Tile& t, const CrossAttentionHead<T>& h,            \
                                      const T* d_out, uint16_t* bits) {                                     \
    weights_backward(s, g, t, h, d_out, bits);                                                              \
  }                                                                                                         \
  LRA_CPU_CLONES void add_rows_clones(const T* from, int64_t from_stride, T* to, int64_t to_stride,         \
                                      int64_t rows, int64_t n) {                                            \
    add_rows(from, from_stride, to, to_stride, rows, n);                                                    \
  }
LRA_FOR_TYPE(float)
LRA_FOR_TYPE(double)
#undef LRA_FOR_TYPE

// Rows that lie `stride` apart, side by side: every product would else walk over as many memory pages as
// there are positions.
template <class T>
void pack(const T* from, int64_t stride, T* to, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * stride, width, to + i * width);
}
template <class T>
void unpack(const T* from, T* to, int64_t stride, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * width, width, to + i * stride);
}

template <class T>
struct Work {
  const CrossAttentionHead<T>& h;
  int64_t block;
  T *scores, *gradients, *k, *v, *d_k, *d_v;
  uint16_t* bits;

  Work(const CrossAttentionHead<T>& head, T* memory) : h(head), block(block_size(head.keys)) {
    const int64_t tile = block * padded(h.keys), keys = padded(h.keys * h.width),
                  values = padded(h.keys * h.value_width);
    scores = memory, gradients = scores + tile;
    k = gradients + tile, v = k + keys;
    d_k = v + values, d_v = d_k + keys;
    bits = reinterpret_cast<uint16_t*>(d_v + values);
    pack(h.k, h.k_stride, k, h.keys, h.width);
    pack(h.v, h.v_stride, v, h.keys, h.value_width);
  }

  Tile tile(int64_t i0) const {
    const int64_t rows = std::min(block, h.queries - i0), n = h.causal ? std::min(h.keys, i0 + rows) : h.keys;
    return {i0, rows, n, padded(n)};
  }
  void score(const Tile& t) const {
    T keep = 0;
    if (h.table) {
      for (int64_t i = 0; i < t.rows; ++i)
        std::copy_n(h.table + (t.i0 + i) * h.table_stride, t.keys, scores + i * t.stride);
      keep = 1;
    }
    if (h.width > 0) {
      gemm<T>(false, true, t.rows, t.keys, h.width, h.scale, h.q + t.i0 * h.q_stride, h.q_stride, k, h.width,
              keep, scores, t.stride);
    }
  }
};

}  // namespace

int64_t cross_attention_scratch(int64_t keys, int64_t width, int64_t value_width) {
  return 2 * block_size(keys) * padded(keys) + 2 * padded(keys * width) + 2 * padded(keys * value_width) +
         padded(keys);
}

template <class T>
void cross_attention_forward_cpu(const CrossAttentionHead<T>& h, T* scratch) {
  const Work<T> w(h, scratch);
  for (int64_t i0 = 0; i0 < h.queries; i0 += w.block) {
    const Tile t = w.tile(i0);
    w.score(t);
    forward_clones(w.scores, t, h, w.bits);
    gemm<T>(false, false, t.rows, h.value_width, t.keys, T(1), w.scores, t.stride, w.v, h.value_width, T(0),
            h.out + i0 * h.out_stride, h.out_stride);
  }
}

template <class T>
void cross_attention_backward_cpu(const CrossAttentionHead<T>& h, const CrossAttentionHeadGradient<T>& d,
                                  T* scratch) {
  const Work<T> w(h, scratch);
  const int64_t P = h.value_width, W = h.width;
  std::fill_n(w.d_k, h.keys * W, T(0));
  std::fill_n(w.d_v, h.keys * P, T(0));
  for (int64_t i0 = 0; i0 < h.queries; i0 += w.block) {
    const Tile t = w.tile(i0);
    const T* d_out = d.d_out + i0 * h.out_stride;
    w.score(t);
    gemm<T>(false, true, t.rows, t.keys, P, T(1), d_out, h.out_stride, w.v, P, T(0), w.gradients, t.stride);
    backward_clones(w.scores, w.gradients, t, h, d.d_out, w.bits);
    gemm<T>(true, false, t.keys, P, t.rows, T(1), w.scores, t.stride, d_out, h.out_stride, T(1), w.d_v, P);
    if (W > 0) {
      gemm<T>(false, false, t.rows, W, t.keys, h.scale, w.gradients, t.stride, w.k, W, T(0),
              d.d_q + i0 * d.d_q_stride, d.d_q_stride);
      gemm<T>(true, false, t.keys, W, t.rows, h.scale, w.gradients, t.stride, h.q + i0 * h.q_stride,
              h.q_stride, T(1), w.d_k, W);
    }
    if (d.d_table) {
      add_rows_clones(w.gradients, t.stride, d.d_table + i0 * h.table_stride, h.table_stride, t.rows, t.keys);
    }
  }
  unpack(w.d_k, d.d_k, d.d_k_stride, h.keys, W);
  unpack(w.d_v, d.d_v, d.d_v_stride, h.keys, P);
}

template void cross_attention_forward_cpu(const CrossAttentionHead<float>&, float*);
template void cross_attention_forward_cpu(const CrossAttentionHead<double>&, double*);
template void cross_attention_backward_cpu(const CrossAttentionHead<float>&,
                                           const CrossAttentionHeadGradient<float>&, float*);
template void cross_attention_backward_cpu(const CrossAttentionHead<double>&,
                                           const CrossAttentionHeadGradient<double>&, double*);

}  // namespace lra
