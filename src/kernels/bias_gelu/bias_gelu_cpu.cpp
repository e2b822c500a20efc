// CPU side of bias + GELU + dropout (bias_gelu.h): raw pointers, see kernels/cpu.h.
#include "kernels/bias_gelu/bias_gelu_cpu.h"

#include "kernels/vector_math.h"

namespace lra {
namespace {

constexpr double kRoot = 0.7978845608028654;  // √(2/π)
constexpr double kCube = 0.044715;

template <class T>
LRA_CPU_INLINE T keep(const uint16_t* bits, int64_t i, DropoutRate rate) {
  return bits[i] >= rate.threshold ? static_cast<T>(rate.scale) : T(0);
}

template <class T>
LRA_CPU_INLINE T gelu(T u) {
  return T(0.5) * u * (T(1) + vtanh(T(kRoot) * (u + T(kCube) * u * u * u)));
}

template <class T>
LRA_CPU_INLINE T gelu_derivative(T u) {
  const T t = vtanh(T(kRoot) * (u + T(kCube) * u * u * u));
  return T(0.5) * (T(1) + t) + T(0.5) * u * (T(1) - t * t) * T(kRoot) * (T(1) + T(3 * kCube) * u * u);
}

template <class T>
LRA_CPU_INLINE void forward(const T* __restrict x, const T* __restrict bias, T* __restrict y, int64_t n,
                            const uint16_t* __restrict bits, DropoutRate rate) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) y[i] = gelu(x[i] + bias[i]) * keep<T>(bits, i, rate);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = gelu(x[i] + bias[i]);
  }
}

template <class T>
LRA_CPU_INLINE void backward(const T* __restrict x, const T* __restrict bias, const T* __restrict dy,
                             T* __restrict dx, T* __restrict d_bias, int64_t n,
                             const uint16_t* __restrict bits, DropoutRate rate) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * keep<T>(bits, i, rate) * gelu_derivative(x[i] + bias[i]);
      d_bias[i] += dx[i];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * gelu_derivative(x[i] + bias[i]);
      d_bias[i] += dx[i];
    }
  }
}

}  // namespace

LRA_CPU_CLONES void bias_gelu_forward_cpu(const float* x, const float* bias, float* y, int64_t n,
                                          const uint16_t* bits, DropoutRate rate) {
  forward(x, bias, y, n, bits, rate);
}
LRA_CPU_CLONES void bias_gelu_forward_cpu(const double* x, const double* bias, double* y, int64_t n,
                                          const uint16_t* bits, DropoutRate rate) {
  forward(x, bias, y, n, bits, rate);
}
LRA_CPU_CLONES void bias_gelu_backward_cpu(const float* x, const float* bias, const float* dy, float* dx,
                                           float* d_bias, int64_t n, const uint16_t* bits, DropoutRate rate) {
  backward(x, bias, dy, dx, d_bias, n, bits, rate);
}
LRA_CPU_CLONES void bias_gelu_backward_cpu(const double* x, const double* bias, const double* dy, double* dx,
                                           double* d_bias, int64_t n, const uint16_t* bits,
                                           DropoutRate rate) {
  backward(x, bias, dy, dx, d_bias, n, bits, rate);
}

}  // namespace lra
