// Small loops over rows of features, x [rows, n] side by side: what is left between the matrix products of
// linear_attention_cpu.cpp. Each for float and double.
//
//   scale_rows            s_m *= factor_m, z_m *= factor_m          s [rows, n], z [rows]
//   add_columns           sums += Σ_i x_i
//   add_weighted_columns  sums += Σ_i w_i x_i
//   add_outer             x_i += w_i z
//   add_to_rows           x_i += z
//   divide_rows           denominator_i += x_i·z;  out_i /= denominator_i
//   quotient_gradient     of that: g_i = d_out_i / denominator_i, e_i = −(d_out_i·out_i) / denominator_i
//   exp_difference        out = exp(a − b), at most 1
#pragma once
#include <cstdint>

namespace lra {

#define LRA_ROW_OPERATIONS(T)                                                                    \
  void scale_rows_cpu(T* s, T* z, const T* factor, int64_t rows, int64_t n);                     \
  void add_columns_cpu(const T* x, int64_t rows, int64_t n, T* sums);                            \
  void add_weighted_columns_cpu(const T* x, const T* w, int64_t rows, int64_t n, T* sums);       \
  void add_outer_cpu(const T* w, const T* z, int64_t rows, int64_t n, T* x);                     \
  void add_to_rows_cpu(const T* z, int64_t rows, int64_t n, T* x);                               \
  void divide_rows_cpu(const T* x, const T* z, int64_t rows, int64_t n, T* denominator, T* out,  \
                       int64_t stride, int64_t width);                                           \
  void quotient_gradient_cpu(const T* d_out, const T* out, int64_t stride, const T* denominator, \
                             int64_t rows, int64_t width, T* g, T* e);                           \
  void exp_difference_cpu(const T* a, const T* b, int64_t n, T* out);
LRA_ROW_OPERATIONS(float)
LRA_ROW_OPERATIONS(double)
#undef LRA_ROW_OPERATIONS

}  // namespace lra
