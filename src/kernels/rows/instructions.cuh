// Single instructions that C++ has no words for. tests/emulated has a header of the same name that does the
// same on a CPU.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

namespace lra {

// 2^x and 1/x by one instruction each, good to 2^-22, relative; where a result is too small for a float, 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Both halves of a product by one instruction. (The compiler makes two of it, or three, as it likes.)
struct WideProduct {
  uint32_t low, high;
};
__device__ inline WideProduct multiply_wide(uint32_t a, uint32_t b) {
  WideProduct y;
  asm("{.reg .u64 y; mul.wide.u32 y, %2, %3; mov.b64 {%0, %1}, y;}"
      : "=r"(y.low), "=r"(y.high)
      : "r"(a), "r"(b));
  return y;
}

// Two bytes become 0xffff or 0 each, as the upper bits of bytes kFirst and kSecond of a word are.
template <int kFirst, int kSecond>
__device__ inline uint32_t spread_bits(uint32_t word) {
  constexpr uint32_t kBytes = (0x88 | kFirst * 0x11) | (0x88 | kSecond * 0x11) << 8;  // 8: the bit alone
  uint32_t y;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(word), "n"(kBytes));
  return y;
}

// Adds to four floats on a boundary of 16 bytes in global memory, each at once as others see it.
__device__ inline void add_at_once(float* to, const float (&x)[4]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile(
      "red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
      "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
      : "memory");
#else
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
#endif
}

// threadIdx.x, read again each time: what is computed from it takes no registers in between.
__device__ inline int thread_number_here() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// A barrier for kThreads threads of the block, whole warps; `id` is one of 1 … 15 (0 is __syncthreads).
template <int kThreads>
__device__ inline void team_barrier(int id) {
  static_assert(kThreads % 32 == 0, "barriers are for whole warps");
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}

// Copies from global to shared memory that go on while the thread does: kBytes (4, 8 or 16), aligned to as
// many. A group is what a thread began since its last commit; copy_async_wait<n> waits for all of its groups
// but the last n. A barrier then shows the data to other threads.
template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "what the instruction can copy");
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto from = static_cast<uint64_t>(__cvta_generic_to_global(global));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes) : "memory");
  }
}
// Zeros where the data is not `there`; `global` is then not read, but must be an address.
template <int kBytes>
__device__ inline void copy_async_or_zero(void* shared, const void* global, bool there) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "what the instruction can copy");
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto from = static_cast<uint64_t>(__cvta_generic_to_global(global));
  const int read = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(read)
                 : "memory");
  }
}
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups = 0>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace lra
