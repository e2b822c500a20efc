// CPU side of add_norm.h: raw pointers, see kernels/cpu.h.
#include "kernels/add_norm/add_norm_cpu.h"

#include <vector>

#include "kernels/dropout/dropout_cpu.h"
#include "kernels/rows/row_bits.h"
#include "kernels/vector_math.h"

namespace lra {
namespace {

template <class T>
LRA_CPU_INLINE T row_variance(const T* x, T mean, int64_t n) {
  typename LaneType<T>::type sums = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const auto centred = load_lanes(x + j) - mean;
    sums += centred * centred;
  }
  T sum = 0;
  for (; j < n; ++j) sum += (x[j] - mean) * (x[j] - mean);
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum / static_cast<T>(n);
}

// Σ u ∘ (x − mean)
template <class T>
LRA_CPU_INLINE T centred_dot(const T* u, const T* x, T mean, int64_t n) {
  typename LaneType<T>::type sums = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) sums += load_lanes(u + j) * (load_lanes(x + j) - mean);
  T sum = 0;
  for (; j < n; ++j) sum += u[j] * (x[j] - mean);
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum;
}

template <class T>
LRA_CPU_INLINE void sum_row(const T* __restrict x, const T* __restrict branch, const T* __restrict bias,
                            const uint16_t* __restrict bits, DropoutRate rate, T* __restrict sum, int64_t n) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + (branch[i] + bias[i]) * keep<T>(bits, i, rate);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + (branch[i] + bias[i]);
  }
}

template <class T>
LRA_CPU_INLINE void norm_row(const T* __restrict sum, T mean, T rstd, const T* __restrict weight,
                             const T* __restrict offset, T* __restrict normed, int64_t n) {
  for (int64_t i = 0; i < n; ++i) normed[i] = (sum[i] - mean) * rstd * weight[i] + offset[i];
}

template <class T>
LRA_CPU_INLINE void forward(const AddNormForwardArguments& a, int64_t begin, int64_t end) {
  const int64_t D = a.width;
  const std::vector<T> zeros(static_cast<size_t>(D));
  const T* bias = a.bias ? static_cast<const T*>(a.bias) : zeros.data();
  RowBits bits(a.draw, D);
  for (int64_t r = begin; r < end; ++r) {
    const T* sum = static_cast<const T*>(a.x) + r * D;
    if (a.branch) {
      T* out = static_cast<T*>(a.sum) + r * D;
      sum_row(sum, static_cast<const T*>(a.branch) + r * D, bias, bits.of(r), a.draw.rate, out, D);
      sum = out;
    }
    const T mean = row_mean(sum, D);
    const T rstd = T(1) / std::sqrt(row_variance(sum, mean, D) + static_cast<T>(kNormEpsilon));
    norm_row(sum, mean, rstd, static_cast<const T*>(a.weight), static_cast<const T*>(a.offset),
             static_cast<T*>(a.normed) + r * D, D);
    if (a.mean) {
      static_cast<T*>(a.mean)[r] = mean;
      static_cast<T*>(a.rstd)[r] = rstd;
    }
  }
}

// u = d_normed ∘ weight; adds to d_weight and d_offset.
template <class T>
LRA_CPU_INLINE void backward_parameters(const T* __restrict sum, const T* __restrict d_normed,
                                        const T* __restrict weight, T mean, T rstd, T* __restrict u,
                                        T* __restrict d_weight, T* __restrict d_offset, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    u[i] = d_normed[i] * weight[i];
    d_weight[i] += d_normed[i] * ((sum[i] - mean) * rstd);
    d_offset[i] += d_normed[i];
  }
}

// d_x = d_sum + rstd · (u − mean_u − x̂ · mean_ux)
template <class T>
LRA_CPU_INLINE void backward_row(const T* __restrict sum, const T* __restrict d_sum, const T* __restrict u,
                                 T mean, T rstd, T mean_u, T mean_ux, T* __restrict d_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    d_x[i] = d_sum[i] + rstd * (u[i] - mean_u - (sum[i] - mean) * rstd * mean_ux);
  }
}

template <class T>
LRA_CPU_INLINE void backward_branch(const T* __restrict d_x, const uint16_t* __restrict bits,
                                    DropoutRate rate, T* __restrict d_branch, T* __restrict d_bias,
                                    int64_t n) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) {
      d_branch[i] = d_x[i] * keep<T>(bits, i, rate);
      d_bias[i] += d_branch[i];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) d_bias[i] += d_x[i];
  }
}

template <class T>
LRA_CPU_INLINE void backward(const AddNormBackwardArguments& a, int64_t begin, int64_t end, T* sums) {
  const int64_t D = a.width;
  const std::vector<T> zeros(static_cast<size_t>(D));
  std::vector<T> u(static_cast<size_t>(D));
  RowBits bits(a.draw, D);
  const auto share = T(1) / static_cast<T>(D);
  for (int64_t r = begin; r < end; ++r) {
    const T* sum = static_cast<const T*>(a.sum) + r * D;
    const T mean = static_cast<const T*>(a.mean)[r], rstd = static_cast<const T*>(a.rstd)[r];
    backward_parameters(sum, static_cast<const T*>(a.d_normed) + r * D, static_cast<const T*>(a.weight), mean,
                        rstd, u.data(), sums, sums + D, D);
    const T mean_u = row_mean(u.data(), D), mean_ux = centred_dot(u.data(), sum, mean, D) * rstd * share;
    const T* d_sum = a.d_sum ? static_cast<const T*>(a.d_sum) + r * D : zeros.data();
    T* d_x = static_cast<T*>(a.d_x) + r * D;
    backward_row(sum, d_sum, u.data(), mean, rstd, mean_u, mean_ux, d_x, D);
    T* d_branch = a.d_branch ? static_cast<T*>(a.d_branch) + r * D : nullptr;
    backward_branch(d_x, bits.of(r), a.draw.rate, d_branch, sums + 2 * D, D);
  }
}

}  // namespace

LRA_CPU_CLONES void add_norm_forward_cpu(const AddNormForwardArguments& a, int64_t begin, int64_t end) {
  a.element == 8 ? forward<double>(a, begin, end) : forward<float>(a, begin, end);
}
LRA_CPU_CLONES void add_norm_backward_cpu(const AddNormBackwardArguments& a, int64_t begin, int64_t end,
                                          void* sums) {
  a.element == 8 ? backward<double>(a, begin, end, static_cast<double*>(sums))
                 : backward<float>(a, begin, end, static_cast<float*>(sums));
}

}  // namespace lra
