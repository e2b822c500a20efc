// Hopper's tensor cores, warpgroup by warpgroup (128 threads): products [64, 16]·[16, 64] of bfloat16, or of
// fewer columns, summed in float, that go on while the threads do. All of a warpgroup must come to each of
// these together. tests/emulated has a header of the same name that does the same on a CPU.
//
// Warp w of a warpgroup has rows 16w … of the left operand and of the sums, its lanes as in
// kernels/rows/mma.cuh. The right operand is read from a swizzled tile in shared memory: rows of 64 elements,
// on a boundary of 1024 bytes, in which piece c (16 bytes) of row r lies where piece c ^ (r mod 8) would.
//
//   group_begin(c, a);                                // registers and tile are as they should be
//   multiply_rows_async(c, a, group_tile(tile));      // c = a · tileᵀ
//   multiply_columns_async(c, a, group_tile(tile));   // c += a · tile
//   group_commit();
//   group_wait<0>(c);                                 // until then nobody may touch c, or write to the tile
//
// Other threads' writes to a tile are seen after show_to_group() by the writer and a barrier. Where a loop's
// body ends with products on their way whose sums threads use in its next round, the compiler waits for them
// as that begins: what shall overlap with products stands in the same round.
#pragma once
#include <cstdint>

#include <cuda_bf16.h>

namespace lra {

inline constexpr int kGroupThreads = 128, kGroupRows = 64;

// Where element `column`, a multiple of 8, of row r of a tile lies, counted in elements.
__device__ inline int swizzled(int row, int column) { return row * 64 + (column ^ (row % 8 * 8)); }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
#define LRA_WGMMA(...) asm volatile(__VA_ARGS__)
#else  // the instructions are those of sm_90a alone; whoever launches asks first what the device is
#define LRA_WGMMA(...) __trap()
#endif

// A place in a tile, as the instruction wants it: address, 1024 bytes from 8 rows to the next, swizzle of 128
// bytes. What differs from place to place is in the lower half.
struct GroupTile {
  uint32_t low;
  __device__ GroupTile operator+(int bytes) const { return {low + static_cast<uint32_t>(bytes) / 16}; }
  __device__ uint64_t descriptor() const { return uint64_t{1 << 30 | 1024 / 16} << 32 | low; }
};
__device__ inline GroupTile group_tile(const void* tile) {
  return {1 << 16 | (static_cast<uint32_t>(__cvta_generic_to_shared(tile)) & 0x3ffff) / 16};
}
// Which warpgroup of the block this is; so said, the compiler knows that it is the same for a warp.
__device__ inline int group_number() {
  return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
}

__device__ inline void show_to_group() { LRA_WGMMA("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void group_commit() { LRA_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Keeps the compiler from moving work on these registers across.
template <int kColumns>
__device__ inline void hold(float (&c)[kColumns][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kColumns; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}
template <int kSteps>
__device__ inline void hold(uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kSteps; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}
// After the threads' own work on these registers, operands and sums of what follows.
template <class... Registers>
__device__ inline void group_begin(Registers&... r) {
  (hold(r), ...);
  LRA_WGMMA("wgmma.fence.sync.aligned;" ::: "memory");
}
// For all products but those of the last kGroups commits, whose sums are `c`.
template <int kGroups, class... Sums>
__device__ inline void group_wait(Sums&... c) {
  LRA_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
  (hold(c), ...);
}

// [64, 16]·[16, 8·kColumns]. kOfRows: the tile's rows are the columns of c.
#define LRA_OCTET(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define LRA_OCTETS_2 LRA_OCTET(0), LRA_OCTET(1)
#define LRA_OCTETS_3 LRA_OCTETS_2, LRA_OCTET(2)
#define LRA_OCTETS_4 LRA_OCTETS_3, LRA_OCTET(3)
#define LRA_OCTETS_6 LRA_OCTETS_4, LRA_OCTET(4), LRA_OCTET(5)
#define LRA_OCTETS_8 LRA_OCTETS_6, LRA_OCTET(6), LRA_OCTET(7)
#define LRA_PRODUCT(shape, octets, sums, left, tile, adds, transposed)                             \
  LRA_WGMMA("{.reg .pred adds; setp.ne.b32 adds, " adds ", 0; wgmma.mma_async.sync.aligned." shape \
            ".f32.bf16.bf16 {" sums "}, {" left "}, " tile ", adds, 1, 1, " transposed ";}"        \
            : octets                                                                               \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "n"(kAdds ? 1 : 0), \
              "n"(kOfRows ? 0 : 1))
#define LRA_SUMS_4 "%0,%1,%2,%3"
#define LRA_SUMS_8 LRA_SUMS_4 ",%4,%5,%6,%7"
#define LRA_SUMS_12 LRA_SUMS_8 ",%8,%9,%10,%11"
#define LRA_SUMS_16 LRA_SUMS_12 ",%12,%13,%14,%15"
#define LRA_SUMS_24 LRA_SUMS_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define LRA_SUMS_32 LRA_SUMS_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
template <bool kOfRows, bool kAdds, int kColumns>
__device__ inline void multiply_async(float (&c)[kColumns][4], const uint32_t (&a)[4], GroupTile b) {
  static_assert(kColumns % 2 == 0 && kColumns <= 8, "what is written out here");
  if constexpr (kColumns == 2) {
    LRA_PRODUCT("m64n16k16", LRA_OCTETS_2, LRA_SUMS_8, "%8,%9,%10,%11", "%12", "%13", "%14");
  } else if constexpr (kColumns == 4) {
    LRA_PRODUCT("m64n32k16", LRA_OCTETS_4, LRA_SUMS_16, "%16,%17,%18,%19", "%20", "%21", "%22");
  } else if constexpr (kColumns == 6) {
    LRA_PRODUCT("m64n48k16", LRA_OCTETS_6, LRA_SUMS_24, "%24,%25,%26,%27", "%28", "%29", "%30");
  } else {
    LRA_PRODUCT("m64n64k16", LRA_OCTETS_8, LRA_SUMS_32, "%32,%33,%34,%35", "%36", "%37", "%38");
  }
}
// The same of tiles whose 16 rows are neither's: c's rows are columns of the one, its columns those of the
// other.
#define LRA_TILE_PRODUCT(shape, octets, sums, left, right, adds)                                   \
  LRA_WGMMA("{.reg .pred adds; setp.ne.b32 adds, " adds ", 0; wgmma.mma_async.sync.aligned." shape \
            ".f32.bf16.bf16 {" sums "}, " left ", " right ", adds, 1, 1, 1, 1;}"                   \
            : octets                                                                               \
            : "l"(a.descriptor()), "l"(b.descriptor()), "n"(kAdds ? 1 : 0))
template <bool kAdds, int kColumns>
__device__ inline void multiply_async(float (&c)[kColumns][4], GroupTile a, GroupTile b) {
  static_assert(kColumns <= 4, "what is written out here");
  if constexpr (kColumns == 1) {
    LRA_TILE_PRODUCT("m64n8k16", LRA_OCTET(0), LRA_SUMS_4, "%4", "%5", "%6");
  } else if constexpr (kColumns == 2) {
    LRA_TILE_PRODUCT("m64n16k16", LRA_OCTETS_2, LRA_SUMS_8, "%8", "%9", "%10");
  } else if constexpr (kColumns == 3) {
    LRA_TILE_PRODUCT("m64n24k16", LRA_OCTETS_3, LRA_SUMS_12, "%12", "%13", "%14");
  } else {
    LRA_TILE_PRODUCT("m64n32k16", LRA_OCTETS_4, LRA_SUMS_16, "%16", "%17", "%18");
  }
}
#undef LRA_OCTET
#undef LRA_OCTETS_2
#undef LRA_OCTETS_3
#undef LRA_OCTETS_4
#undef LRA_OCTETS_6
#undef LRA_OCTETS_8
#undef LRA_PRODUCT
#undef LRA_TILE_PRODUCT
#undef LRA_SUMS_4
#undef LRA_SUMS_8
#undef LRA_SUMS_12
#undef LRA_SUMS_16
#undef LRA_SUMS_24
#undef LRA_SUMS_32

// c = a · tileᵀ for a tile of 64 rows, its first 16·kSteps columns.
template <int kSteps>
__device__ inline void multiply_rows_async(float (&c)[8][4], const uint32_t (&a)[kSteps][4], GroupTile tile) {
  multiply_async<true, false>(c, a[0], tile);
#pragma unroll
  for (int step = 1; step < kSteps; ++step) multiply_async<true, true>(c, a[step], tile + step * 32);
}
// c += a · tile for a tile of 64 rows, its first 8·kColumns columns.
template <int kColumns>
__device__ inline void multiply_columns_async(float (&c)[kColumns][4], const uint32_t (&a)[4][4],
                                              GroupTile tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) multiply_async<false, true>(c, a[step], tile + step * 16 * 128);
}
// c = aᵀ · b for tiles of kRows rows, all 64 columns of a and the first 8·kColumns of b.
template <int kRows, int kColumns>
__device__ inline void multiply_transposed_async(float (&c)[kColumns][4], GroupTile a, GroupTile b) {
  multiply_async<false>(c, a, b);
#pragma unroll
  for (int row = 16; row < kRows; row += 16) multiply_async<true>(c, a + row * 128, b + row * 128);
}

}  // namespace lra
