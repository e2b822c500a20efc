// The part of CUDA that the kernels use, on the emulator (emulator.h): words of the language, functions of
// the device, and of the host what surrounds a launch.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <math.h>  // its functions without std::, for every type, as CUDA has them
#include <type_traits>

#include "emulator.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
// Blocks run one at a time on an operating system thread, and their threads stay on it.
#define __shared__ static thread_local

#define threadIdx (::lra::emulated::current->index)
#define blockIdx (::lra::emulated::block_index())
#define blockDim (::lra::emulated::block_size())
#define gridDim (::lra::emulated::grid_size())
inline constexpr int warpSize = 32;

// ---- barriers ----
inline void __syncthreads(LRA_SITE_PARAMETERS) {
  lra::emulated::barrier("__syncthreads", LRA_SITE, 0, 0, false);
}
inline int __syncthreads_count(int predicate, LRA_SITE_PARAMETERS) {
  return lra::emulated::barrier("__syncthreads_count", LRA_SITE, 0, 0, predicate != 0);
}
inline int __syncthreads_or(int predicate, LRA_SITE_PARAMETERS) {
  return lra::emulated::barrier("__syncthreads_or", LRA_SITE, 0, 0, predicate != 0) > 0;
}
inline int __syncthreads_and(int predicate, LRA_SITE_PARAMETERS) {
  return lra::emulated::barrier("__syncthreads_and", LRA_SITE, 0, 0, predicate == 0) == 0;
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}

// ---- functions of a warp ----
namespace lra::emulated {

inline int lane() { return current->number % 32; }

// f(mask, inputs by lane, outputs by lane) once for all lanes; returns the caller's output.
template <class Out, class In, class F>
Out exchange(const char* what, Site site, uint32_t mask, const In& in, const F& f) {
  struct Given {
    const In& in;
    const F& f;
  } const mine{in, f};
  Out out{};
  collective(what, site, mask, &mine, &out, [](uint32_t all, const void* const* given, void* const* outs) {
    In in_of[32] = {};
    Out out_of[32] = {};
    const F* any = nullptr;
    for (int l = 0; l < 32; ++l) {
      if (!(all >> l & 1u)) continue;
      in_of[l] = static_cast<const Given*>(given[l])->in;
      any = &static_cast<const Given*>(given[l])->f;
    }
    (*any)(all, in_of, out_of);
    for (int l = 0; l < 32; ++l) {
      if (all >> l & 1u) *static_cast<Out*>(outs[l]) = out_of[l];
    }
  });
  return out;
}

template <class T>
struct Shuffled {
  T value;
  int source;
};
template <class T>
T shuffle(const char* what, Site site, uint32_t mask, T value, int source) {
  static_assert(std::is_arithmetic_v<T>);
  if (!(mask >> source & 1u)) stop("a shuffle reads from a lane that the mask does not name", site);
  return exchange<T>(what, site, mask, Shuffled<T>{value, source},
                     [](uint32_t, const Shuffled<T>* in, T* out) {
                       for (int l = 0; l < 32; ++l) out[l] = in[in[l].source].value;
                     });
}

template <class T, class F>
T reduce(const char* what, Site site, uint32_t mask, T value, const F& f) {
  return exchange<T>(what, site, mask, value, [&](uint32_t all, const T* in, T* out) {
    T total{};
    bool first = true;
    for (int l = 0; l < 32; ++l) {
      if (!(all >> l & 1u)) continue;
      total = first ? in[l] : f(total, in[l]);
      first = false;
    }
    for (int l = 0; l < 32; ++l) out[l] = total;
  });
}

}  // namespace lra::emulated

inline void __syncwarp(unsigned mask = 0xffffffffu, LRA_SITE_PARAMETERS) {
  lra::emulated::collective("__syncwarp", LRA_SITE, mask, nullptr, nullptr,
                            [](uint32_t, const void* const*, void* const*) {});
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, LRA_SITE_PARAMETERS) {
  const int lane = lra::emulated::lane();
  return lra::emulated::shuffle("__shfl_sync", LRA_SITE, mask, value,
                                (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, LRA_SITE_PARAMETERS) {
  const int lane = lra::emulated::lane(), source = lane - static_cast<int>(delta);
  return lra::emulated::shuffle("__shfl_up_sync", LRA_SITE, mask, value,
                                source < (lane & ~(width - 1)) ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, LRA_SITE_PARAMETERS) {
  const int lane = lra::emulated::lane(), source = lane + static_cast<int>(delta);
  return lra::emulated::shuffle("__shfl_down_sync", LRA_SITE, mask, value,
                                source > (lane | (width - 1)) ? lane : source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, LRA_SITE_PARAMETERS) {
  const int lane = lra::emulated::lane(), source = lane ^ bits;
  return lra::emulated::shuffle("__shfl_xor_sync", LRA_SITE, mask, value,
                                source > (lane | (width - 1)) ? lane : source);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, LRA_SITE_PARAMETERS) {
  const unsigned mine = predicate ? 1u << lra::emulated::lane() : 0;
  return lra::emulated::reduce("__ballot_sync", LRA_SITE, mask, mine,
                               [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate, LRA_SITE_PARAMETERS) {
  return lra::emulated::reduce("__any_sync", LRA_SITE, mask, int{predicate != 0},
                               [](int a, int b) { return a | b; });
}
inline int __all_sync(unsigned mask, int predicate, LRA_SITE_PARAMETERS) {
  return lra::emulated::reduce("__all_sync", LRA_SITE, mask, int{predicate != 0},
                               [](int a, int b) { return a & b; });
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, LRA_SITE_PARAMETERS) {
  return lra::emulated::exchange<unsigned>("__match_any_sync", LRA_SITE, mask, value,
                                           [](uint32_t all, const T* in, unsigned* out) {
                                             for (int l = 0; l < 32; ++l) {
                                               for (int o = 0; o < 32; ++o) {
                                                 if ((all >> o & 1u) && in[o] == in[l]) out[l] |= 1u << o;
                                               }
                                             }
                                           });
}
template <class T>
T __reduce_add_sync(unsigned mask, T value, LRA_SITE_PARAMETERS) {
  return lra::emulated::reduce("__reduce_add_sync", LRA_SITE, mask, value, [](T a, T b) { return a + b; });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, LRA_SITE_PARAMETERS) {
  return lra::emulated::reduce("__reduce_max_sync", LRA_SITE, mask, value,
                               [](T a, T b) { return a < b ? b : a; });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, LRA_SITE_PARAMETERS) {
  return lra::emulated::reduce("__reduce_min_sync", LRA_SITE, mask, value,
                               [](T a, T b) { return b < a ? b : a; });
}

// ---- functions of a thread ----
inline void __trap(LRA_SITE_PARAMETERS) { lra::emulated::stop("__trap", LRA_SITE); }

template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T value) {
  *p = value;
}
template <class To, class From>
To lra_emulated_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
inline float __uint_as_float(unsigned x) { return lra_emulated_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return lra_emulated_bits<unsigned>(x); }
inline float __int_as_float(int x) { return lra_emulated_bits<float>(x); }
inline int __float_as_int(float x) { return lra_emulated_bits<int>(x); }
inline double __hiloint2double(int high, int low) {
  return lra_emulated_bits<double>(uint64_t{static_cast<uint32_t>(high)} << 32 | static_cast<uint32_t>(low));
}
inline int __double2loint(double x) { return static_cast<int>(lra_emulated_bits<uint64_t>(x)); }
inline int __double2hiint(double x) { return static_cast<int>(lra_emulated_bits<uint64_t>(x) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  shift %= 32;
  return shift ? high << shift | low >> (32 - shift) : high;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float rsqrt(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}

// Blocks run at the same time, so that these must be what they say.
template <class T>
T atomicAdd(T* to, std::common_type_t<T> value) {
  T before;
  __atomic_load(to, &before, __ATOMIC_RELAXED);
  for (T after = before + value;
       !__atomic_compare_exchange(to, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);) {
    after = before + value;
  }
  return before;
}
template <class T>
T atomicMax(T* to, std::common_type_t<T> value) {
  T before;
  __atomic_load(to, &before, __ATOMIC_RELAXED);
  while (before < value &&
         !__atomic_compare_exchange(to, &before, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return before;
}
template <class T>
T atomicExch(T* to, std::common_type_t<T> value) {
  T before;
  __atomic_exchange(to, &value, &before, __ATOMIC_SEQ_CST);
  return before;
}
template <class T>
T atomicCAS(T* to, std::common_type_t<T> expected, std::common_type_t<T> value) {
  T before = expected;
  __atomic_compare_exchange(to, &before, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return before;
}

// ---- the host ----
using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75 };

inline cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(lra::emulated::take_error()); }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
// Few multiprocessors, so that blocks that loop do so on small data.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  return *value = which == cudaDevAttrComputeCapabilityMajor ? 9 : 2, cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int, size_t) {
  return *blocks = 2, cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) {
  return std::memset(to, byte, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
