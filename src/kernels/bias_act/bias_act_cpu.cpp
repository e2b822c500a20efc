// CPU side of bias_act.h: raw pointers, see kernels/cpu.h.
#include "kernels/bias_act/bias_act_cpu.h"

#include "kernels/dropout/dropout_cpu.h"
#include "kernels/rows/row_bits.h"
#include "kernels/vector_math.h"

namespace lra {
namespace {

struct Gelu {
  static constexpr double kRoot = 0.7978845608028654, kCube = 0.044715;  // √(2/π)

  template <class T>
  LRA_CPU_INLINE static T value(T u) {
    return T(0.5) * u * (T(1) + vtanh(T(kRoot) * (u + T(kCube) * u * u * u)));
  }
  template <class T>
  LRA_CPU_INLINE static T derivative(T u) {
    const T t = vtanh(T(kRoot) * (u + T(kCube) * u * u * u));
    return T(0.5) * (T(1) + t) + T(0.5) * u * (T(1) - t * t) * T(kRoot) * (T(1) + T(3 * kCube) * u * u);
  }
};

// Not a number stays so.
struct Relu {
  template <class T>
  LRA_CPU_INLINE static T value(T u) {
    return u < T(0) ? T(0) : u;
  }
  template <class T>
  LRA_CPU_INLINE static T derivative(T u) {
    return u <= T(0) ? T(0) : T(1);
  }
};

template <class F, class T>
LRA_CPU_INLINE void forward_row(const T* __restrict x, const T* __restrict bias, T* __restrict y, int64_t n,
                                const uint16_t* __restrict bits, DropoutRate rate) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) y[i] = F::value(x[i] + bias[i]) * keep<T>(bits, i, rate);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = F::value(x[i] + bias[i]);
  }
}

template <class F, class T>
LRA_CPU_INLINE void backward_row(const T* __restrict x, const T* __restrict bias, const T* __restrict dy,
                                 T* __restrict dx, T* __restrict d_bias, int64_t n,
                                 const uint16_t* __restrict bits, DropoutRate rate) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * keep<T>(bits, i, rate) * F::derivative(x[i] + bias[i]);
      d_bias[i] += dx[i];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * F::derivative(x[i] + bias[i]);
      d_bias[i] += dx[i];
    }
  }
}

template <class T, class F>
LRA_CPU_INLINE void forward(const BiasActForwardArguments& a, int64_t begin, int64_t end) {
  RowBits bits(a.draw, a.width);
  for (int64_t r = begin; r < end; ++r) {
    forward_row<F>(static_cast<const T*>(a.x) + r * a.width, static_cast<const T*>(a.bias),
                   static_cast<T*>(a.y) + r * a.width, a.width, bits.of(r), a.draw.rate);
  }
}

template <class T, class F>
LRA_CPU_INLINE void backward(const BiasActBackwardArguments& a, int64_t begin, int64_t end, void* sums) {
  RowBits bits(a.draw, a.width);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * a.width;
    backward_row<F>(static_cast<const T*>(a.x) + at, static_cast<const T*>(a.bias),
                    static_cast<const T*>(a.dy) + at, static_cast<T*>(a.dx) + at, static_cast<T*>(sums),
                    a.width, bits.of(r), a.draw.rate);
  }
}

}  // namespace

LRA_CPU_CLONES void bias_act_forward_cpu(const BiasActForwardArguments& a, int64_t begin, int64_t end) {
  if (a.activation == Activation::kGelu) {
    a.element == 8 ? forward<double, Gelu>(a, begin, end) : forward<float, Gelu>(a, begin, end);
  } else {
    a.element == 8 ? forward<double, Relu>(a, begin, end) : forward<float, Relu>(a, begin, end);
  }
}

LRA_CPU_CLONES void bias_act_backward_cpu(const BiasActBackwardArguments& a, int64_t begin, int64_t end,
                                          void* sums) {
  if (a.activation == Activation::kGelu) {
    a.element == 8 ? backward<double, Gelu>(a, begin, end, sums) : backward<float, Gelu>(a, begin, end, sums);
  } else {
    a.element == 8 ? backward<double, Relu>(a, begin, end, sums) : backward<float, Relu>(a, begin, end, sums);
  }
}

}  // namespace lra
