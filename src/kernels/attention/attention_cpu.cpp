// CPU attention for one (row, head): see attention.h for the formula, kernels/cpu.h for the rules of such
// files.
#include "kernels/attention/attention_cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/vector_math.h"

namespace lra {
namespace {

// Queries per block: an L×block tile of floats stays within a megabyte, and small heads go in one block.
int64_t block_size(int64_t length) {
  return std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(length, 1), 16, 128);
}

int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// Rows are `row_stride` apart, a multiple of the vector width; loops run to its end so that they have no
// scalar remainder. What stands beyond column n is never read by a product.

// Row of scores → unnormalised weights; returns the log-sum-exp and writes 1/Σ to `inverse`.
template <class T>
LRA_CPU_INLINE T softmax_row(T* s, int64_t n, int64_t row_stride, T* inverse) {
  for (int64_t j = n; j < row_stride; ++j) s[j] = -std::numeric_limits<T>::infinity();
  const T largest = lane_max(s, row_stride);
  for (int64_t j = 0; j < row_stride; ++j) s[j] = vexp(s[j] - largest);
  const T sum = lane_sum(s, row_stride);
  *inverse = T(1) / sum;
  return largest + std::log(sum);
}

template <class T>
LRA_CPU_INLINE void forward_rows(T* s, int64_t rows, int64_t n, int64_t row_stride, const AttentionHead<T>& h,
                                 int64_t i0, uint16_t* bits) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = s + i * row_stride;
    T inverse = 0;
    h.lse[i0 + i] = softmax_row(row, h.causal ? i0 + i + 1 : n, row_stride, &inverse);
    if (h.rate.threshold == 0) {
      for (int64_t j = 0; j < row_stride; ++j) row[j] *= inverse;
    } else {
      dropout_bits_cpu(h.seed, h.stream, h.first + (static_cast<uint64_t>(i0 + i) << 20), row_stride, bits);
      const T factor = inverse * static_cast<T>(h.rate.scale);
      for (int64_t j = 0; j < row_stride; ++j) row[j] = bits[j] >= h.rate.threshold ? row[j] * factor : T(0);
    }
  }
}

// From scores s and weight gradients g: s ← dropped weights, g ← score gradients P∘(g∘keep − Σ dO∘O).
template <class T>
LRA_CPU_INLINE void backward_rows(T* s, T* g, int64_t rows, int64_t row_stride, const AttentionHead<T>& h,
                                  const T* d_out, int64_t i0, uint16_t* bits) {
  for (int64_t i = 0; i < rows; ++i) {
    T *weight = s + i * row_stride, *gradient = g + i * row_stride;
    const T* o = h.out + (i0 + i) * h.out_stride;
    const T* d = d_out + (i0 + i) * h.out_stride;
    const T delta = lane_dot(o, d, h.width);
    if (h.causal) std::fill(weight + i0 + i + 1, weight + row_stride, -std::numeric_limits<T>::infinity());
    const T lse = h.lse[i0 + i];
    if (h.rate.threshold == 0) {
      for (int64_t j = 0; j < row_stride; ++j) {
        const T a = vexp(weight[j] - lse);
        weight[j] = a;
        gradient[j] = a * (gradient[j] - delta);
      }
    } else {
      dropout_bits_cpu(h.seed, h.stream, h.first + (static_cast<uint64_t>(i0 + i) << 20), row_stride, bits);
      const T scale = static_cast<T>(h.rate.scale);
      for (int64_t j = 0; j < row_stride; ++j) {
        const T a = vexp(weight[j] - lse);
        const T keep = bits[j] >= h.rate.threshold ? scale : T(0);
        weight[j] = a * keep;
        gradient[j] = a * (gradient[j] * keep - delta);
      }
    }
  }
}

LRA_CPU_CLONES void forward_rows_clones(float* s, int64_t rows, int64_t n, int64_t row_stride,
                                        const AttentionHead<float>& h, int64_t i0, uint16_t* bits) {
  forward_rows(s, rows, n, row_stride, h, i0, bits);
}
LRA_CPU_CLONES void forward_rows_clones(double* s, int64_t rows, int64_t n, int64_t row_stride,
                                        const AttentionHead<double>& h, int64_t i0, uint16_t* bits) {
  forward_rows(s, rows, n, row_stride, h, i0, bits);
}
LRA_CPU_CLONES void backward_rows_clones(float* s, float* g, int64_t rows, int64_t row_stride,
                                         const AttentionHead<float>& h, const float* d_out, int64_t i0,
                                         uint16_t* bits) {
  backward_rows(s, g, rows, row_stride, h, d_out, i0, bits);
}
LRA_CPU_CLONES void backward_rows_clones(double* s, double* g, int64_t rows, int64_t row_stride,
                                         const AttentionHead<double>& h, const double* d_out, int64_t i0,
                                         uint16_t* bits) {
  backward_rows(s, g, rows, row_stride, h, d_out, i0, bits);
}

// Rows that lie `stride` apart, side by side: a head's keys are spread over as many memory pages as there are
// positions, and every product would walk all of them again.
template <class T>
void pack(const T* from, int64_t stride, T* to, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * stride, width, to + i * width);
}
template <class T>
void unpack(const T* from, T* to, int64_t stride, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * width, width, to + i * stride);
}

// Scratch: two tiles of scores, four packed [L, P] matrices, one row of dropout numbers.
template <class T>
struct Scratch {
  T *scores, *gradients, *k, *v, *d_k, *d_v;
  uint16_t* bits;

  Scratch(T* memory, int64_t length, int64_t width) {
    const int64_t tile = block_size(length) * padded(length), matrix = padded(length * width);
    scores = memory;
    gradients = scores + tile;
    k = gradients + tile;
    v = k + matrix;
    d_k = v + matrix;
    d_v = d_k + matrix;
    bits = reinterpret_cast<uint16_t*>(d_v + matrix);
  }
};

// Keys that the queries before `end` see.
template <class T>
int64_t keys_seen(const AttentionHead<T>& h, int64_t end) {
  return h.causal ? std::min(h.length, end) : h.length;
}

template <class T>
void forward(const AttentionHead<T>& h, T* scratch) {
  const int64_t P = h.width, block = block_size(h.length);
  const Scratch<T> at(scratch, h.length, P);
  pack(h.k, h.stride, at.k, h.length, P);
  pack(h.v, h.stride, at.v, h.length, P);
  for (int64_t i0 = 0; i0 < h.queries; i0 += block) {
    const int64_t rows = std::min(block, h.queries - i0), n = keys_seen(h, i0 + rows), row_stride = padded(n);
    gemm<T>(false, true, rows, n, P, h.scale, h.q + i0 * h.stride, h.stride, at.k, P, T(0), at.scores,
            row_stride);
    forward_rows_clones(at.scores, rows, n, row_stride, h, i0, at.bits);
    gemm<T>(false, false, rows, P, n, T(1), at.scores, row_stride, at.v, P, T(0), h.out + i0 * h.out_stride,
            h.out_stride);
  }
}

template <class T>
void backward(const AttentionHead<T>& h, const AttentionHeadGradient<T>& d, T* scratch) {
  const int64_t P = h.width, block = block_size(h.length);
  const Scratch<T> at(scratch, h.length, P);
  pack(h.k, h.stride, at.k, h.length, P);
  pack(h.v, h.stride, at.v, h.length, P);
  if (h.causal) {  // else the first block overwrites all of it
    std::fill_n(at.d_k, h.length * P, T(0));
    std::fill_n(at.d_v, h.length * P, T(0));
  }
  for (int64_t i0 = 0; i0 < h.queries; i0 += block) {
    const int64_t rows = std::min(block, h.queries - i0), n = keys_seen(h, i0 + rows), row_stride = padded(n);
    const T* q = h.q + i0 * h.stride;
    const T* d_out = d.d_out + i0 * h.out_stride;
    const T keep = i0 == 0 && !h.causal ? T(0) : T(1);
    T *s = at.scores, *g = at.gradients;
    gemm<T>(false, true, rows, n, P, h.scale, q, h.stride, at.k, P, T(0), s, row_stride);
    gemm<T>(false, true, rows, n, P, T(1), d_out, h.out_stride, at.v, P, T(0), g, row_stride);
    backward_rows_clones(s, g, rows, row_stride, h, d.d_out, i0, at.bits);
    gemm<T>(true, false, n, P, rows, T(1), s, row_stride, d_out, h.out_stride, keep, at.d_v, P);
    gemm<T>(false, false, rows, P, n, h.scale, g, row_stride, at.k, P, T(0), d.d_q + i0 * h.stride, h.stride);
    gemm<T>(true, false, n, P, rows, h.scale, g, row_stride, q, h.stride, keep, at.d_k, P);
  }
  unpack(at.d_k, d.d_k, h.stride, h.length, P);
  unpack(at.d_v, d.d_v, h.stride, h.length, P);
}

}  // namespace

int64_t attention_scratch(int64_t length, int64_t width) {
  return 2 * block_size(length) * padded(length) + 4 * padded(length * width) + padded(length);
}

void attention_forward_cpu(const AttentionHead<float>& head, float* scratch) { forward(head, scratch); }
void attention_forward_cpu(const AttentionHead<double>& head, double* scratch) { forward(head, scratch); }
void attention_backward_cpu(const AttentionHead<float>& head, const AttentionHeadGradient<float>& gradient,
                            float* scratch) {
  backward(head, gradient, scratch);
}
void attention_backward_cpu(const AttentionHead<double>& head, const AttentionHeadGradient<double>& gradient,
                            double* scratch) {
  backward(head, gradient, scratch);
}

}  // namespace lra
