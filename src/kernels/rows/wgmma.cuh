// Hopper's tensor cores, warpgroup by warpgroup (128 threads): products [64, 16]·[16, 64] of bfloat16, summed
// in float, that go on while the threads do. All of a warpgroup must come to each of these together.
// tests/emulated has a header of the same name that does the same on a CPU.
//
// Warp w of a warpgroup has rows 16w … of the left operand and of the sums, its lanes as in
// kernels/rows/mma.cuh. The right operand is read from a swizzled tile in shared memory: rows of 64 elements,
// on a boundary of 1024 bytes, in which piece c (16 bytes) of row r lies where piece c ^ (r mod 8) would.
//
//   group_begin();                                    // registers and tile are as they should be
//   multiply_rows_async(c, a, group_tile(tile));      // c += a · (16 columns of the tile)ᵀ: its 64 rows
//   multiply_columns_async(c, a, group_tile(tile));   // c += a · 16 rows of the tile
//   group_commit();
//   group_wait<0>(c);                                 // until then nobody may touch c, or write to the tile
//
// Other threads' writes to a tile are seen after show_to_group() by the writer and a barrier.
#pragma once
#include <cstdint>

#include <cuda_bf16.h>

namespace lra {

inline constexpr int kGroupThreads = 128, kGroupRows = 64;
inline constexpr int kGroupTileBytes = kGroupRows * 128;  // of 64 rows

// Where element `column`, a multiple of 8, of row r of a tile lies, counted in elements.
__device__ inline int swizzled(int row, int column) { return row * 64 + (column ^ (row % 8 * 8)); }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
#define LRA_WGMMA(...) asm volatile(__VA_ARGS__)
#else  // the instructions are those of sm_90a alone; whoever launches asks first what the device is
#define LRA_WGMMA(...) __trap()
#endif

// A place in a tile, as the instruction wants it: address, 1024 bytes from 8 rows to the next, swizzle of 128
// bytes.
struct GroupTile {
  uint64_t descriptor;
  __device__ GroupTile operator+(int bytes) const { return {descriptor + static_cast<uint32_t>(bytes) / 16}; }
};
__device__ inline GroupTile group_tile(const void* tile) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  return {uint64_t{1} << 62 | uint64_t{1024 / 16} << 32 | uint64_t{1} << 16 | (address & 0x3ffff) / 16};
}

__device__ inline void show_to_group() { LRA_WGMMA("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void group_begin() { LRA_WGMMA("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void group_commit() { LRA_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Keeps the compiler from moving work on these registers across.
template <int kColumns>
__device__ inline void hold(float (&c)[kColumns][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kColumns; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}
// For all products but those of the last kGroups commits, whose sums are `c`.
template <int kGroups, class... Sums>
__device__ inline void group_wait(Sums&... c) {
  LRA_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
  (hold(c), ...);
}

template <bool kOfRows, bool kAdds>
__device__ inline void multiply_async(float (&c)[8][4], const uint32_t (&a)[4], GroupTile b) {
  LRA_WGMMA(
      "{.reg .pred adds; setp.ne.b32 adds, %37, 0; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
      "%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, adds, 1, 1, %38;}"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]),
        "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]),
        "+f"(c[7][2]), "+f"(c[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor), "n"(kAdds ? 1 : 0),
        "n"(kOfRows ? 0 : 1));
}

// c = a · tileᵀ for a tile of 64 rows, all of its 64 columns.
__device__ inline void multiply_rows_async(float (&c)[8][4], const uint32_t (&a)[4][4], GroupTile tile) {
  multiply_async<true, false>(c, a[0], tile);
#pragma unroll
  for (int step = 1; step < 4; ++step) multiply_async<true, true>(c, a[step], tile + step * 32);
}
// c += a · tile, likewise.
__device__ inline void multiply_columns_async(float (&c)[8][4], const uint32_t (&a)[4][4], GroupTile tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) multiply_async<false, true>(c, a[step], tile + step * 16 * 128);
}

}  // namespace lra
