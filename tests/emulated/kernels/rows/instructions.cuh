// src/kernels/rows/instructions.cuh on the emulator.
#pragma once
#include <cfloat>

#include <cuda_runtime.h>

namespace lra {

inline float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }
inline float fast_exp2(float x) { return flushed(exp2f(flushed(x))); }
inline float fast_reciprocal(float x) { return flushed(1 / flushed(x)); }

struct WideProduct {
  uint32_t low, high;
};
inline WideProduct multiply_wide(uint32_t a, uint32_t b) {
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product), static_cast<uint32_t>(product >> 32)};
}

template <int kFirst, int kSecond>
uint32_t spread_bits(uint32_t word) {
  return (word >> (8 * kFirst + 7) & 1 ? 0xffffu : 0) | (word >> (8 * kSecond + 7) & 1 ? 0xffff0000u : 0);
}

inline void add_at_once(float* to, const float (&x)[4], LRA_SITE_PARAMETERS) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) emulated::stop("four floats are not aligned", LRA_SITE);
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
}

inline int thread_number_here() { return static_cast<int>(threadIdx.x); }

template <int kThreads>
void team_barrier(int id, LRA_SITE_PARAMETERS) {
  static_assert(kThreads % 32 == 0, "barriers are for whole warps");
  emulated::barrier("team_barrier", LRA_SITE, id, kThreads, false);
}

template <int kBytes>
void copy_async(void* shared, const void* global, LRA_SITE_PARAMETERS) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "what the instruction can copy");
  emulated::begin_copy(shared, global, kBytes, LRA_SITE);
}
template <int kBytes>
void copy_async_or_zero(void* shared, const void* global, bool there, LRA_SITE_PARAMETERS) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "what the instruction can copy");
  emulated::begin_copy(shared, there ? global : nullptr, kBytes, LRA_SITE);
}
inline void copy_async_commit() { emulated::commit_copies(); }
template <int kGroups = 0>
void copy_async_wait() {
  emulated::wait_for_copies(kGroups);
}

}  // namespace lra
