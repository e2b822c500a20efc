// CPU side of pooling (pool.h): raw pointers, see kernels/cpu.h.
#include "kernels/pool/pool_cpu.h"

#include "kernels/dropout/dropout_cpu.h"
#include "kernels/pool/pool_arguments.h"
#include "kernels/vector_math.h"

namespace lra {
namespace {

// u = x + dropout(branch + bias)
template <class T>
LRA_CPU_INLINE void add_branch(const PoolPosition<T>& p) {
  const T* __restrict x = p.x, * __restrict branch = p.branch, * __restrict bias = p.bias;
  T* __restrict u = p.u;
  const uint16_t* __restrict bits = p.bits;
  if (!branch) {
    for (int64_t i = 0; i < p.n; ++i) u[i] = x[i];
    return;
  }
  if (bias) {
    for (int64_t i = 0; i < p.n; ++i) u[i] = branch[i] + bias[i];
  } else {
    for (int64_t i = 0; i < p.n; ++i) u[i] = branch[i];
  }
  if (bits) {
    for (int64_t i = 0; i < p.n; ++i) u[i] *= keep<T>(bits, i, p.rate);
  }
  for (int64_t i = 0; i < p.n; ++i) u[i] += x[i];
}

template <class T>
LRA_CPU_INLINE void forward(const PoolPosition<T>& p, T* __restrict total, T* statistics) {
  add_branch(p);
  T* __restrict u = p.u;
  const T mean = row_mean(u, p.n);
  for (int64_t i = 0; i < p.n; ++i) u[i] -= mean;
  const T variance = lane_dot(u, u, p.n) / static_cast<T>(p.n);
  const T scale = T(1) / std::sqrt(variance + static_cast<T>(kPoolEpsilon));
  for (int64_t i = 0; i < p.n; ++i) total[i] += u[i] * scale;
  statistics[0] = mean;
  statistics[1] = scale;
}

template <class T>
LRA_CPU_INLINE void backward(const PoolPosition<T>& p, const PoolPositionGradient<T>& g) {
  add_branch(p);
  T* __restrict u = p.u;
  const T* __restrict a = g.a;
  const T mean = g.statistics[0], scale = g.statistics[1];
  for (int64_t i = 0; i < p.n; ++i) u[i] = (u[i] - mean) * scale;
  const T a_mean = row_mean(a, p.n), au_mean = lane_dot(a, u, p.n) / static_cast<T>(p.n);
  T* __restrict d_x = g.d_x;
  for (int64_t i = 0; i < p.n; ++i) d_x[i] = u[i] = (a[i] - a_mean - u[i] * au_mean) * scale;
  if (p.bits) {
    for (int64_t i = 0; i < p.n; ++i) u[i] *= keep<T>(p.bits, i, p.rate);
  }
  if (g.d_branch) {
    T* __restrict d_branch = g.d_branch;
    for (int64_t i = 0; i < p.n; ++i) d_branch[i] = u[i];
  }
  if (g.bias_total) {
    T* __restrict bias_total = g.bias_total;
    for (int64_t i = 0; i < p.n; ++i) bias_total[i] += u[i];
  }
}

}  // namespace

LRA_CPU_CLONES void pool_forward_cpu(const PoolPosition<float>& p, float* total, float* statistics) {
  forward(p, total, statistics);
}
LRA_CPU_CLONES void pool_forward_cpu(const PoolPosition<double>& p, double* total, double* statistics) {
  forward(p, total, statistics);
}
LRA_CPU_CLONES void pool_backward_cpu(const PoolPosition<float>& p, const PoolPositionGradient<float>& g) {
  backward(p, g);
}
LRA_CPU_CLONES void pool_backward_cpu(const PoolPosition<double>& p, const PoolPositionGradient<double>& g) {
  backward(p, g);
}

}  // namespace lra
