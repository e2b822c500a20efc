// src/kernels/rows/wgmma.cuh on the emulator. Each warp's rows are its own affair, so that a warp is what has
// to come together here.
#pragma once
#include "kernels/rows/mma.cuh"

namespace lra {

inline constexpr int kGroupThreads = 128, kGroupRows = 64;

inline int swizzled(int row, int column) { return row * 64 + (column ^ (row % 8 * 8)); }

struct GroupTile {
  const char* at;
  GroupTile operator+(int bytes) const { return {at + bytes}; }
};
inline GroupTile group_tile(const void* tile, LRA_SITE_PARAMETERS) {
  if (reinterpret_cast<uintptr_t>(tile) % 1024 != 0) emulated::stop("a tile is not aligned", LRA_SITE);
  return {static_cast<const char*>(tile)};
}

inline int group_number() { return static_cast<int>(threadIdx.x) / kGroupThreads; }

inline void show_to_group() { emulated::show_tiles(); }
template <class... R>
inline void group_begin(R&...) {}
inline void group_commit() { emulated::commit_products(); }
template <int kGroups, class... Sums>
void group_wait(Sums&...) {
  emulated::wait_for_products(kGroups);
}

namespace emulated {

// The element `bytes` behind a place in a tile: the hardware permutes by what the whole address is.
inline uint32_t swizzled_bits(GroupTile tile, int bytes) {
  const uintptr_t linear = reinterpret_cast<uintptr_t>(tile.at) + static_cast<uintptr_t>(bytes),
                  at = linear ^ (linear >> 3 & 0x70);
  return *reinterpret_cast<const unsigned short*>(at);
}

// The lane's part of its warp's 16 columns of a tile, as a left operand.
inline void load_columns(uint32_t (&a)[4], GroupTile tile) {
  const int thread = static_cast<int>(threadIdx.x), column = thread / 32 % 4 * 16 + thread % 32 / 4;
  for (int i = 0; i < 4; ++i) {
    const auto at = [&](int second) {
      const int row = thread % 4 * 2 + i / 2 * 8 + second;
      return swizzled_bits(tile, row * 128 + (column + i % 2 * 8) * 2);
    };
    a[i] = at(0) | at(1) << 16;
  }
}

template <bool kOfRows, bool kAdds, int kColumns>
void multiply(const GroupProduct& p) {
  struct Operands {
    float c[kColumns][4];
    uint32_t a[4];
    GroupTile b;
  } mine{{}, {p.left[0], p.left[1], p.left[2], p.left[3]}, {p.tile}};
  if (p.left_tile) load_columns(mine.a, {p.left_tile});
  if constexpr (kAdds) std::memcpy(mine.c, p.sums, sizeof(mine.c));
  struct Result {
    float c[kColumns][4];
  };
  const Result result =
      exchange<Result>("multiply_async", p.site, ~0u, mine, [](uint32_t, const Operands* in, Result* out) {
        float left[16][16], right[16][8 * kColumns];  // (row, k), (k, column)
        for (int l = 0; l < 32; ++l) {
          const int g = l / 4, t = l % 4;
          for (int i = 0; i < 8; ++i) {
            left[g + i / 2 % 2 * 8][2 * t + i / 4 * 8 + i % 2] = half_of(in[l].a[i / 2], i % 2);
          }
        }
        for (int k = 0; k < 16; ++k) {
          for (int n = 0; n < 8 * kColumns; ++n) {
            right[k][n] = half_of(swizzled_bits(in[0].b, kOfRows ? n * 128 + k * 2 : k * 128 + n * 2), 0);
          }
        }
        for (int l = 0; l < 32; ++l) {
          for (int n = 0; n < kColumns; ++n) {
            for (int i = 0; i < 4; ++i) {
              const int row = l / 4 + i / 2 * 8, column = 8 * n + 2 * (l % 4) + i % 2;
              double sum = static_cast<double>(in[l].c[n][i]);
              for (int k = 0; k < 16; ++k) {
                sum += static_cast<double>(left[row][k]) * static_cast<double>(right[k][column]);
              }
              out[l].c[n][i] = static_cast<float>(sum);
            }
          }
        }
      });
  std::memcpy(p.sums, result.c, sizeof(result.c));
}

template <bool kOfRows, bool kAdds, int kColumns>
void begin(float (&c)[kColumns][4], const uint32_t (&a)[4], GroupTile b, Site site) {
  begin_product({multiply<kOfRows, kAdds, kColumns>, c, {a[0], a[1], a[2], a[3]}, nullptr, b.at, site, 0});
}
template <bool kAdds, int kColumns>
void begin(float (&c)[kColumns][4], GroupTile a, GroupTile b, Site site) {
  begin_product({multiply<false, kAdds, kColumns>, c, {}, a.at, b.at, site, 0});
}

}  // namespace emulated

template <int kSteps>
void multiply_rows_async(float (&c)[8][4], const uint32_t (&a)[kSteps][4], GroupTile tile,
                         LRA_SITE_PARAMETERS) {
  emulated::begin<true, false>(c, a[0], tile, LRA_SITE);
  for (int step = 1; step < kSteps; ++step) {
    emulated::begin<true, true>(c, a[step], tile + step * 32, LRA_SITE);
  }
}
template <int kColumns>
void multiply_columns_async(float (&c)[kColumns][4], const uint32_t (&a)[4][4], GroupTile tile,
                            LRA_SITE_PARAMETERS) {
  for (int step = 0; step < 4; ++step) {
    emulated::begin<false, true>(c, a[step], tile + step * 16 * 128, LRA_SITE);
  }
}

template <int kRows, int kColumns>
void multiply_transposed_async(float (&c)[kColumns][4], GroupTile a, GroupTile b, LRA_SITE_PARAMETERS) {
  emulated::begin<false>(c, a, b, LRA_SITE);
  for (int row = 16; row < kRows; row += 16) emulated::begin<true>(c, a + row * 128, b + row * 128, LRA_SITE);
}

}  // namespace lra
