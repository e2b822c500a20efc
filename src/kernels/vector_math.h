// Elementary functions as plain arithmetic, so that the compiler can vectorise the loops that call them
// (*_cpu.cpp only).
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/cpu.h"

namespace lra {

// exp(x) for x ≤ 88: 2^n · p(r), |r| ≤ ln2/2; relative error below 2e-7. Below -87 the result is 0 or the
// smallest normal number.
LRA_CPU_INLINE float vexp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = __builtin_rintf(x * 1.44269504088896341f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t power = (static_cast<int32_t>(n) + 127) << 23;
  float two_to_n;
  __builtin_memcpy(&two_to_n, &power, 4);
  return p * two_to_n;
}
LRA_CPU_INLINE double vexp(double x) { return std::exp(x); }

// tanh(x) = 1 − 2 / (exp(2x) + 1)
template <class T>
LRA_CPU_INLINE T vtanh(T x) {
  x = x < T(-10) ? T(-10) : x;
  x = x > T(10) ? T(10) : x;
  return T(1) - T(2) / (vexp(T(2) * x) + T(1));
}
template <>
LRA_CPU_INLINE double vtanh(double x) {
  return std::tanh(x);
}

// Reductions in 16 lanes: vectorised without permission to reorder, so every machine adds in the same order.
inline constexpr int kLanes = 16;

template <class T>
struct LaneType {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};

template <class T>
LRA_CPU_INLINE typename LaneType<T>::type load_lanes(const T* x) {
  typename LaneType<T>::type v;
  __builtin_memcpy(&v, x, sizeof(v));
  return v;
}

template <class T>
LRA_CPU_INLINE T lane_max(const T* x, int64_t n) {  // n a multiple of 16
  auto most = load_lanes(x);
  for (int64_t j = kLanes; j < n; j += kLanes) {
    const auto v = load_lanes(x + j);
    most = v > most ? v : most;
  }
  T largest = most[0];
  for (int l = 1; l < kLanes; ++l) largest = most[l] > largest ? most[l] : largest;
  return largest;
}

template <class T>
LRA_CPU_INLINE T lane_sum(const T* x, int64_t n) {  // n a multiple of 16
  auto sums = load_lanes(x);
  for (int64_t j = kLanes; j < n; j += kLanes) sums += load_lanes(x + j);
  T sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum;
}

template <class T>
LRA_CPU_INLINE T lane_dot(const T* x, const T* y, int64_t n) {
  typename LaneType<T>::type sums = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) sums += load_lanes(x + j) * load_lanes(y + j);
  T sum = 0;
  for (; j < n; ++j) sum += x[j] * y[j];
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum;
}

template <class T>
LRA_CPU_INLINE T row_mean(const T* x, int64_t n) {
  typename LaneType<T>::type sums = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) sums += load_lanes(x + j);
  T sum = 0;
  for (; j < n; ++j) sum += x[j];
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum / static_cast<T>(n);
}

// Row-major C[m,n] = alpha·op(A)·op(B) + beta·C by the BLAS that LibTorch carries (column-major, hence the
// swapped order).
extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*, const int*);
extern "C" void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
                       const double*, const int*, const double*, const int*, const double*, double*,
                       const int*);
template <class T>
inline void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
                 const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  const int mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k),
            la = static_cast<int>(lda), lb = static_cast<int>(ldb), lc = static_cast<int>(ldc);
  const char *oa = ta ? "T" : "N", *ob = tb ? "T" : "N";
  if constexpr (sizeof(T) == 4) {
    sgemm_(ob, oa, &ni, &mi, &ki, &alpha, b, &lb, a, &la, &beta, c, &lc);
  } else {
    dgemm_(ob, oa, &ni, &mi, &ki, &alpha, b, &lb, a, &la, &beta, c, &lc);
  }
}

}  // namespace lra
