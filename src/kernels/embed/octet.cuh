// Eight neighbouring elements of a position: what a thread holds at a time, in 16-byte loads where alignment
// permits, and what one Philox block decides (dropout/bits.h).
#pragma once
#include <cstring>

#include <cuda_bf16.h>

#include "kernels/dropout/bits.h"

namespace lra {

// What sums and statistics are made in; also the type of parameters.
template <class T>
struct Wide {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};

__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }

template <class T>
__device__ inline T narrow(typename Wide<T>::type x) {
  return static_cast<T>(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}

template <class A>
struct Octet {
  A v[8];
};

// The elements p[0 … n), n from 1 to 8; zeros after them. kVector: n = 8 and p lies on 16 bytes.
template <bool kVector, class T>
__device__ inline Octet<typename Wide<T>::type> load_octet(const T* p, int n) {
  T e[8];
  if constexpr (kVector) {
    uint4 raw[sizeof(e) / 16];
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(e) / 16); ++i)
      raw[i] = __ldg(reinterpret_cast<const uint4*>(p) + i);
    memcpy(e, raw, sizeof(e));
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) e[i] = i < n ? p[i] : narrow<T>(0);
  }
  Octet<typename Wide<T>::type> o;
#pragma unroll
  for (int i = 0; i < 8; ++i) o.v[i] = widen(e[i]);
  return o;
}

template <bool kVector, class T>
__device__ inline void store_octet(T* p, const Octet<typename Wide<T>::type>& o, int n) {
  T e[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) e[i] = narrow<T>(o.v[i]);
  if constexpr (kVector) {
    uint4 raw[sizeof(e) / 16];
    memcpy(raw, e, sizeof(e));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(e) / 16); ++i) reinterpret_cast<uint4*>(p)[i] = raw[i];
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < n) p[i] = e[i];
    }
  }
}

// Bit i: element i of the octet is kept.
__device__ inline uint32_t kept_octet(const DropoutDraw& draw, int64_t r, int64_t octet, int64_t width) {
  const PhiloxBlock block = philox(draw.seed, dropout_stream(draw.site, *draw.step),
                                   dropout_position(draw.slots[r], width) / 8 + static_cast<uint64_t>(octet));
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    kept |= static_cast<uint32_t>(dropout_bits(block, i) >= draw.rate.threshold) << i;
  return kept;
}

template <class A>
__device__ inline void drop(Octet<A>& o, uint32_t kept, float scale) {
#pragma unroll
  for (int i = 0; i < 8; ++i) o.v[i] = (kept >> i) & 1u ? o.v[i] * static_cast<A>(scale) : A(0);
}

// Whether rows of `width` elements from here on can be read in octets of 16-byte loads.
inline bool octets_aligned(const void* p, int64_t width) {
  return width % 8 == 0 && reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

}  // namespace lra
