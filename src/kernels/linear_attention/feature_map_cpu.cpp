// See linear_attention.h for the maps, kernels/cpu.h for the rules of such files.
#include "kernels/linear_attention/feature_map_cpu.h"

#include "kernels/vector_math.h"

namespace lra {
namespace {

enum : int { kElu, kRelu, kSoftmax };

// Exponents this far below the largest are as good as none; so far up, products of two features are never
// zero.
constexpr double kLowest = -40;

template <class T>
LRA_CPU_INLINE T small_exp(T x) {
  return vexp(x < T(kLowest) ? T(kLowest) : x);
}

template <class T>
LRA_CPU_INLINE T row_max(const T* x, int64_t n) {
  const int64_t whole = n / kLanes * kLanes;
  T most = whole > 0 ? lane_max(x, whole) : x[0];
  for (int64_t m = whole; m < n; ++m) most = x[m] > most ? x[m] : most;
  return most;
}

template <class T>
LRA_CPU_INLINE void elementwise(const FeatureParameters<T>& p, const FeatureBlock<T>& b) {
  for (int64_t i = 0; i < b.rows; ++i) {
    const T* __restrict x = b.x + i * b.stride;
    T* __restrict phi = b.phi + i * p.count;
    if (p.map == kElu) {
      for (int64_t m = 0; m < p.count; ++m) phi[m] = x[m] > T(0) ? x[m] + T(1) : vexp(x[m]);
    } else {
      for (int64_t m = 0; m < p.count; ++m) phi[m] = (x[m] < T(0) ? T(0) : x[m]) + T(1e-3);
    }
  }
}

template <class T>
LRA_CPU_INLINE void elementwise_backward(const FeatureParameters<T>& p, const FeatureBlock<T>& b,
                                         const T* d_phi, T* d_x) {
  for (int64_t i = 0; i < b.rows; ++i) {
    const T* __restrict x = b.x + i * b.stride;
    const T* __restrict phi = b.phi + i * p.count;
    const T* __restrict d = d_phi + i * p.count;
    T* __restrict out = d_x + i * b.stride;
    if (p.map == kElu) {
      for (int64_t m = 0; m < p.count; ++m) out[m] = x[m] > T(0) ? d[m] : d[m] * phi[m];
    } else {
      for (int64_t m = 0; m < p.count; ++m) out[m] = x[m] > T(0) ? d[m] : T(0);
    }
  }
}

// phi holds ω·c x. Exponents of keys: minus ‖c x‖²/2.
template <class T>
LRA_CPU_INLINE void key_exponentials(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* largest,
                                     T* factor) {
  const int64_t M = p.count;
  for (int64_t i = 0; i < b.rows; ++i) {
    const T* x = b.x + i * b.stride;
    T* __restrict phi = b.phi + i * M;
    const T norm = p.half_square * lane_dot(x, x, b.width);
    for (int64_t m = 0; m < M; ++m) phi[m] -= norm;
  }
  if (factor) {
    for (int64_t m = 0; m < M; ++m) factor[m] = largest[m];
    for (int64_t i = 0; i < b.rows; ++i) {
      const T* __restrict phi = b.phi + i * M;
      for (int64_t m = 0; m < M; ++m) largest[m] = phi[m] > largest[m] ? phi[m] : largest[m];
    }
    for (int64_t m = 0; m < M; ++m) factor[m] = vexp(factor[m] - largest[m]);
  }
  for (int64_t i = 0; i < b.rows; ++i) {
    T* __restrict phi = b.phi + i * M;
    for (int64_t m = 0; m < M; ++m) phi[m] = small_exp(phi[m] - largest[m]);
  }
}

template <class T>
LRA_CPU_INLINE void query_exponentials(const FeatureParameters<T>& p, const FeatureBlock<T>& b,
                                       const T* __restrict largest) {
  for (int64_t i = 0; i < b.rows; ++i) {
    T* __restrict phi = b.phi + i * p.count;
    for (int64_t m = 0; m < p.count; ++m) phi[m] += largest[m];
    const T most = row_max(phi, p.count);
    for (int64_t m = 0; m < p.count; ++m) phi[m] = small_exp(phi[m] - most);
  }
}

template <class T>
LRA_CPU_INLINE void exponent_gradient(const FeatureParameters<T>& p, const FeatureBlock<T>& b,
                                      T* __restrict d_phi) {
  for (int64_t i = 0; i < b.rows * p.count; ++i) d_phi[i] *= b.phi[i];
}

// d_x −= 2·c²/2·x Σ_m d_phi_m, where d_phi is already that of the exponents
template <class T>
LRA_CPU_INLINE void norm_gradient(const FeatureParameters<T>& p, const FeatureBlock<T>& b, const T* d_phi,
                                  T* d_x) {
  for (int64_t i = 0; i < b.rows; ++i) {
    const T* __restrict x = b.x + i * b.stride;
    T* __restrict out = d_x + i * b.stride;
    const T sum = row_mean(d_phi + i * p.count, p.count) * static_cast<T>(p.count) * T(2) * p.half_square;
    for (int64_t d = 0; d < b.width; ++d) out[d] -= sum * x[d];
  }
}

template <class T>
void project(const FeatureParameters<T>& p, const FeatureBlock<T>& b) {
  gemm<T>(false, true, b.rows, p.count, b.width, T(1), b.x, b.stride, p.projection, b.width, T(0), b.phi,
          p.count);
}
// The loops once for each instruction set and type.
#define LRA_FOR_TYPE(T)                                                                                    \
  LRA_CPU_CLONES void elementwise_clones(const FeatureParameters<T>& p, const FeatureBlock<T>& b) {        \
    elementwise(p, b);                                                                                     \
  }                                                                                                        \
  LRA_CPU_CLONES void elementwise_backward_clones(const FeatureParameters<T>& p, const FeatureBlock<T>& b, \
                                                  const T* d_phi, T* d_x) {                                \
    elementwise_backward(p, b, d_phi, d_x);                                                                \
  }                                                                                                        \
  LRA_CPU_CLONES void key_exponentials_clones(const FeatureParameters<T>& p, const FeatureBlock<T>& b,     \
                                              T* largest, T* factor) {                                     \
    key_exponentials(p, b, largest, factor);                                                               \
  }                                                                                                        \
  LRA_CPU_CLONES void query_exponentials_clones(const FeatureParameters<T>& p, const FeatureBlock<T>& b,   \
                                                const T* largest) {                                        \
    query_exponentials(p, b, largest);                                                                     \
  }                                                                                                        \
  LRA_CPU_CLONES void exponent_gradient_clones(const FeatureParameters<T>& p, const FeatureBlock<T>& b,    \
                                               T* d_phi) {                                                 \
    exponent_gradient(p, b, d_phi);                                                                        \
  }                                                                                                        \
  LRA_CPU_CLONES void norm_gradient_clones(const FeatureParameters<T>& p, const FeatureBlock<T>& b,        \
                                           const T* d_phi, T* d_x) {                                       \
    norm_gradient(p, b, d_phi, d_x);                                                                       \
  }
LRA_FOR_TYPE(float)
LRA_FOR_TYPE(double)
#undef LRA_FOR_TYPE

template <class T>
void exponent_backward(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* d_phi, T* d_x) {
  exponent_gradient_clones(p, b, d_phi);
  gemm<T>(false, false, b.rows, b.width, p.count, T(1), d_phi, p.count, p.projection, b.width, T(0), d_x,
          b.stride);
}

}  // namespace

template <class T>
void key_features_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* largest, T* factor) {
  if (p.map != kSoftmax) return elementwise_clones(p, b);
  project(p, b);
  key_exponentials_clones(p, b, largest, factor);
}

template <class T>
void query_features_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, const T* largest) {
  if (p.map != kSoftmax) return elementwise_clones(p, b);
  project(p, b);
  query_exponentials_clones(p, b, largest);
}

template <class T>
void key_features_backward_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* d_phi, T* d_x) {
  if (p.map != kSoftmax) return elementwise_backward_clones(p, b, d_phi, d_x);
  exponent_backward(p, b, d_phi, d_x);
  norm_gradient_clones(p, b, d_phi, d_x);
}

// Of queries the norm cancels in the quotient.
template <class T>
void query_features_backward_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* d_phi, T* d_x) {
  if (p.map != kSoftmax) return elementwise_backward_clones(p, b, d_phi, d_x);
  exponent_backward(p, b, d_phi, d_x);
}

#define LRA_FOR_TYPE(T)                                                                                 \
  template void key_features_cpu(const FeatureParameters<T>&, const FeatureBlock<T>&, T*, T*);          \
  template void query_features_cpu(const FeatureParameters<T>&, const FeatureBlock<T>&, const T*);      \
  template void key_features_backward_cpu(const FeatureParameters<T>&, const FeatureBlock<T>&, T*, T*); \
  template void query_features_backward_cpu(const FeatureParameters<T>&, const FeatureBlock<T>&, T*, T*);
LRA_FOR_TYPE(float)
LRA_FOR_TYPE(double)
#undef LRA_FOR_TYPE

}  // namespace lra
