// Tensor cores, warp by warp: products of 16×16 and 16×8 tiles of bfloat16, summed in float. All 32 lanes of
// a warp must come to each of these together. tests/emulated has a header of the same name that does the same
// on a CPU.
//
// What lane 4g + t of a warp holds, two neighbouring elements in a register, the first in its lower half:
//
//   a, 16×16 (row, k)      a[0]: (g, 2t…)   a[1]: (g+8, 2t…)   a[2]: (g, 2t+8…)   a[3]: (g+8, 2t+8…)
//   b, 16×8  (k, column)   b0: (2t…, g)     b1: (2t+8…, g)
//   c, 16×8  (row, column) c[0], c[1]: (g, 2t…)                c[2], c[3]: (g+8, 2t…)
//
// So the sums of two tiles side by side, rounded, are the left operand of a further product:
//   a = {pair(c[0], c[1]), pair(c[2], c[3]), pair(c'[0], c'[1]), pair(c'[2], c'[3])}.
#pragma once
#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>

namespace lra {

// Two floats rounded into one register, the first into its lower half.
__device__ inline uint32_t bf16_pair(float first, float second) {
  const auto pair = __floats2bfloat162_rn(first, second);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

// c += a · b
__device__ inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 8×8 tiles of 16-bit elements out of shared memory: lane 8j + i gives the address of row i of tile j, 16
// bytes on a boundary of 16; r[j] of lane 4g + t becomes the elements (g, 2t) and (g, 2t + 1) of tile j.
// With two tiles the addresses of lanes 16 … 31 are not looked at, but must be given.
__device__ inline void load_tiles(uint32_t (&r)[4], const void* row) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}
__device__ inline void load_tiles(uint32_t (&r)[2], const void* row) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(from));
}

// The same, each tile transposed: r[j] of lane 4g + t becomes the elements (2t, g) and (2t + 1, g).
__device__ inline void load_tiles_transposed(uint32_t (&r)[4], const void* row) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}
__device__ inline void load_tiles_transposed(uint32_t (&r)[2], const void* row) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(from));
}

// And back, from compute capability 9.0 on.
__device__ inline void store_tiles(void* row, const uint32_t (&r)[4]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
#else
  __trap();
#endif
}

}  // namespace lra
