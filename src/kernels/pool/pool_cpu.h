#pragma once
#include "kernels/dropout/bits.h"

namespace lra {

// One position of width n: what its sum is made of. branch, bias and bits (no dropout) may be null.
template <class T>
struct PoolPosition {
  const T *x, *branch, *bias;
  const uint16_t* bits;
  DropoutRate rate;
  int64_t n;
  T* u;  // [n] scratch: the normalised sum
};

// total += u; statistics: mean and 1 / σ.
void pool_forward_cpu(const PoolPosition<float>& p, float* total, float* statistics);
void pool_forward_cpu(const PoolPosition<double>& p, double* total, double* statistics);

// a: weight ∘ d_pooled / length. d_branch may be null (it is d_x). bias_total += d_branch unless null.
template <class T>
struct PoolPositionGradient {
  const T *a, *statistics;
  T *d_x, *d_branch, *bias_total;
};
void pool_backward_cpu(const PoolPosition<float>& p, const PoolPositionGradient<float>& g);
void pool_backward_cpu(const PoolPosition<double>& p, const PoolPositionGradient<double>& g);

}  // namespace lra
