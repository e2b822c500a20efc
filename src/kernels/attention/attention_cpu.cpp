// CPU attention for one (row, head): see attention.h for the formula, kernels/cpu.h for the rules of such
// files.
#include "kernels/attention/attention_cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/vector_math.h"

namespace lra {
namespace {

// Queries per block: two L×block tiles of floats stay within a megabyte, and small heads go in one block.
int64_t block_size(int64_t length) {
  return std::clamp<int64_t>((int64_t{1} << 17) / std::max<int64_t>(length, 1), 16, 128);
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
    h.lse[i0 + i] = softmax_row(row, n, row_stride, &inverse);
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

template <class T>
void forward(const AttentionHead<T>& h, T* scratch) {
  const int64_t n = h.length, block = block_size(n), row_stride = padded(n);
  T* s = scratch;
  auto* bits = reinterpret_cast<uint16_t*>(scratch + block * row_stride);
  for (int64_t i0 = 0; i0 < n; i0 += block) {
    const int64_t rows = std::min(block, n - i0);
    gemm<T>(false, true, rows, n, h.width, h.scale, h.q + i0 * h.stride, h.stride, h.k, h.stride, T(0), s,
            row_stride);
    forward_rows_clones(s, rows, n, row_stride, h, i0, bits);
    gemm<T>(false, false, rows, h.width, n, T(1), s, row_stride, h.v, h.stride, T(0),
            h.out + i0 * h.out_stride, h.out_stride);
  }
}

template <class T>
void backward(const AttentionHead<T>& h, const AttentionHeadGradient<T>& d, T* scratch) {
  const int64_t n = h.length, block = block_size(n), row_stride = padded(n);
  T *s = scratch, *g = scratch + block * row_stride;
  auto* bits = reinterpret_cast<uint16_t*>(scratch + 2 * block * row_stride);
  for (int64_t i0 = 0; i0 < n; i0 += block) {
    const int64_t rows = std::min(block, n - i0);
    const T* q = h.q + i0 * h.stride;
    const T* d_out = d.d_out + i0 * h.out_stride;
    const T keep = i0 == 0 ? T(0) : T(1);
    gemm<T>(false, true, rows, n, h.width, h.scale, q, h.stride, h.k, h.stride, T(0), s, row_stride);
    gemm<T>(false, true, rows, n, h.width, T(1), d_out, h.out_stride, h.v, h.stride, T(0), g, row_stride);
    backward_rows_clones(s, g, rows, row_stride, h, d.d_out, i0, bits);
    gemm<T>(true, false, n, h.width, rows, T(1), s, row_stride, d_out, h.out_stride, keep, d.d_v, h.stride);
    gemm<T>(false, false, rows, h.width, n, h.scale, g, row_stride, h.k, h.stride, T(0),
            d.d_q + i0 * h.stride, h.stride);
    gemm<T>(true, false, n, h.width, rows, h.scale, g, row_stride, q, h.stride, keep, d.d_k, h.stride);
  }
}

}  // namespace

int64_t attention_scratch(int64_t length) {
  return 2 * block_size(length) * padded(length) + padded(length) + 64;
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
