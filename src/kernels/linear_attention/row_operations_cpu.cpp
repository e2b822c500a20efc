// See kernels/cpu.h for the rules of such files.
#include "kernels/linear_attention/row_operations_cpu.h"

#include "kernels/vector_math.h"

namespace lra {
namespace {

template <class T>
LRA_CPU_INLINE void scale_rows(T* s, T* z, const T* factor, int64_t rows, int64_t n) {
  for (int64_t m = 0; m < rows; ++m) {
    if (factor[m] == T(1)) continue;  // most of the time, once the largest exponents are found
    T* __restrict row = s + m * n;
    for (int64_t d = 0; d < n; ++d) row[d] *= factor[m];
    z[m] *= factor[m];
  }
}

template <class T>
LRA_CPU_INLINE void add_columns(const T* x, int64_t rows, int64_t n, T* __restrict sums) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* __restrict row = x + i * n;
    for (int64_t m = 0; m < n; ++m) sums[m] += row[m];
  }
}

template <class T>
LRA_CPU_INLINE void add_weighted_columns(const T* x, const T* w, int64_t rows, int64_t n,
                                         T* __restrict sums) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* __restrict row = x + i * n;
    const T weight = w[i];
    for (int64_t m = 0; m < n; ++m) sums[m] += weight * row[m];
  }
}

template <class T>
LRA_CPU_INLINE void add_outer(const T* w, const T* __restrict z, int64_t rows, int64_t n, T* x) {
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict row = x + i * n;
    const T weight = w[i];
    for (int64_t m = 0; m < n; ++m) row[m] += weight * z[m];
  }
}

template <class T>
LRA_CPU_INLINE void add_to_rows(const T* __restrict z, int64_t rows, int64_t n, T* x) {
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict row = x + i * n;
    for (int64_t m = 0; m < n; ++m) row[m] += z[m];
  }
}

template <class T>
LRA_CPU_INLINE void divide_rows(const T* x, const T* z, int64_t rows, int64_t n, T* denominator, T* out,
                                int64_t stride, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) {
    denominator[i] += lane_dot(x + i * n, z, n);
    const T inverse = T(1) / denominator[i];
    T* __restrict row = out + i * stride;
    for (int64_t d = 0; d < width; ++d) row[d] *= inverse;
  }
}

template <class T>
LRA_CPU_INLINE void quotient_gradient(const T* d_out, const T* out, int64_t stride, const T* denominator,
                                      int64_t rows, int64_t width, T* g, T* e) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* __restrict d = d_out + i * stride;
    T* __restrict row = g + i * width;
    const T inverse = T(1) / denominator[i];
    e[i] = -inverse * lane_dot(d, out + i * stride, width);
    for (int64_t k = 0; k < width; ++k) row[k] = d[k] * inverse;
  }
}

template <class T>
LRA_CPU_INLINE void exp_difference(const T* a, const T* b, int64_t n, T* __restrict out) {
  for (int64_t m = 0; m < n; ++m) out[m] = vexp(a[m] - b[m]);
}

}  // namespace

// Every loop once for each instruction set and type.
#define LRA_FOR_TYPE(T)                                                                                      \
  LRA_CPU_CLONES void scale_rows_cpu(T* s, T* z, const T* f, int64_t rows, int64_t n) {                      \
    scale_rows(s, z, f, rows, n);                                                                            \
  }                                                                                                          \
  LRA_CPU_CLONES void add_columns_cpu(const T* x, int64_t rows, int64_t n, T* sums) {                        \
    add_columns(x, rows, n, sums);                                                                           \
  }                                                                                                          \
  LRA_CPU_CLONES void add_weighted_columns_cpu(const T* x, const T* w, int64_t rows, int64_t n, T* sums) {   \
    add_weighted_columns(x, w, rows, n, sums);                                                               \
  }                                                                                                          \
  LRA_CPU_CLONES void add_outer_cpu(const T* w, const T* z, int64_t rows, int64_t n, T* x) {                 \
    add_outer(w, z, rows, n, x);                                                                             \
  }                                                                                                          \
  LRA_CPU_CLONES void add_to_rows_cpu(const T* z, int64_t rows, int64_t n, T* x) {                           \
    add_to_rows(z, rows, n, x);                                                                              \
  }                                                                                                          \
  LRA_CPU_CLONES void divide_rows_cpu(const T* x, const T* z, int64_t rows, int64_t n, T* denominator,       \
                                      T* out, int64_t stride, int64_t width) {                               \
    divide_rows(x, z, rows, n, denominator, out, stride, width);                                             \
  }                                                                                                          \
  LRA_CPU_CLONES void quotient_gradient_cpu(const T* d_out, const T* out, int64_t stride,                    \
                                            const T* denominator, int64_t rows, int64_t width, T* g, T* e) { \
    quotient_gradient(d_out, out, stride, denominator, rows, width, g, e);                                   \
  }                                                                                                          \
  LRA_CPU_CLONES void exp_difference_cpu(const T* a, const T* b, int64_t n, T* out) {                        \
    exp_difference(a, b, n, out);                                                                            \
  }
LRA_FOR_TYPE(float)
LRA_FOR_TYPE(double)
#undef LRA_FOR_TYPE

}  // namespace lra
