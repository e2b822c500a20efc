// CPU side of AdamW (adamw.h): raw pointers, see kernels/cpu.h.
#include "kernels/adamw/adamw_cpu.h"

#include "kernels/cpu.h"

namespace lra {
namespace {

constexpr int kSums = 16;  // side by side, in the same order on every machine

template <class T>
LRA_CPU_INLINE double squares(const T* g, int64_t n) {
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int l = 0; l < kSums; ++l) sums[l] += static_cast<double>(g[i + l]) * static_cast<double>(g[i + l]);
  }
  for (int l = 0; i < n; ++i, ++l) sums[l] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

template <class T>
LRA_CPU_INLINE void update(const AdamWElement<T>& element, T decay, const T* __restrict g, T* __restrict p,
                           T* __restrict m, T* __restrict v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) element.update(g[i], decay, p[i], m[i], v[i]);
}

// To the nearest, ties to even; NaN stays NaN.
template <class T>
LRA_CPU_INLINE void round_to_bfloat16(const T* __restrict p, uint16_t* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(p[i]);
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    out[i] = static_cast<uint16_t>(x != x ? 0x7fc0u : rounded);
  }
}

template <class T>
LRA_CPU_INLINE void update_part(const AdamWArguments& a, int64_t begin, int64_t end) {
  T* g = static_cast<T*>(a.gradients);
  if (a.scalars->stopped == 0) {
    T* p = static_cast<T*>(a.parameters);
    T* m = static_cast<T*>(a.first);
    T* v = static_cast<T*>(a.second);
    const AdamWElement<T> element(a.options, *a.scalars);
    int64_t middle = a.options.decayed_end < end ? a.options.decayed_end : end;
    if (middle < begin) middle = begin;
    update(element, element.decay, g + begin, p + begin, m + begin, v + begin, middle - begin);
    update(element, T(0), g + middle, p + middle, m + middle, v + middle, end - middle);
    if (a.working) round_to_bfloat16(p + begin, static_cast<uint16_t*>(a.working) + begin, end - begin);
  }
  if (a.options.zero_gradients) {
    __builtin_memset(g + begin, 0, static_cast<size_t>(end - begin) * sizeof(T));
  }
}

}  // namespace

LRA_CPU_CLONES double adamw_squares_cpu(const float* g, int64_t n) { return squares(g, n); }
LRA_CPU_CLONES double adamw_squares_cpu(const double* g, int64_t n) { return squares(g, n); }

LRA_CPU_CLONES void adamw_update_float_cpu(const AdamWArguments& a, int64_t begin, int64_t end) {
  update_part<float>(a, begin, end);
}
LRA_CPU_CLONES void adamw_update_double_cpu(const AdamWArguments& a, int64_t begin, int64_t end) {
  update_part<double>(a, begin, end);
}

}  // namespace lra
