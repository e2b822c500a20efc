// src/kernels/rows/mma.cuh on the emulator.
#pragma once
#include <cuda_bf16.h>

namespace lra {
namespace emulated {

struct Product {
  float c[4];
  uint32_t a[4], b[2];
};
struct Sums {
  float c[4];
};
struct Tiles {
  uint32_t r[4];
};

inline float half_of(uint32_t pair, int i) { return __uint_as_float(i ? pair & 0xffff0000u : pair << 16); }

inline Tiles load_tiles(const char* what, Site site, const void* row, bool transposed, int tiles) {
  struct In {
    const unsigned short* row;
    bool transposed;
    int tiles;
  };
  if (lane() < 8 * tiles && reinterpret_cast<uintptr_t>(row) % 16 != 0) stop("a row is not aligned", site);
  return exchange<Tiles>(what, site, ~0u, In{static_cast<const unsigned short*>(row), transposed, tiles},
                         [](uint32_t, const In* in, Tiles* out) {
                           for (int l = 0; l < 32; ++l) {
                             const int g = l / 4, t = l % 4;
                             for (int j = 0; j < in[l].tiles; ++j) {
                               const auto at = [&](int row_of, int column) {
                                 return uint32_t{in[8 * j + row_of].row[column]};
                               };
                               out[l].r[j] = in[l].transposed ? at(2 * t, g) | at(2 * t + 1, g) << 16
                                                              : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
                             }
                           }
                         });
}

}  // namespace emulated

inline uint32_t bf16_pair(float first, float second) {
  return uint32_t{__nv_bfloat16(first).bits} | uint32_t{__nv_bfloat16(second).bits} << 16;
}

// Products are exact and summed in double: the device rounds sums to about a float, in an order of its own.
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, LRA_SITE_PARAMETERS) {
  using emulated::Product, emulated::Sums, emulated::half_of;
  const Product mine{{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  const auto multiply = [](uint32_t, const Product* in, Sums* out) {
    float left[16][16], right[16][8];  // (row, k), (k, column)
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int i = 0; i < 2; ++i) {
        left[g][2 * t + i] = half_of(in[l].a[0], i);
        left[g + 8][2 * t + i] = half_of(in[l].a[1], i);
        left[g][2 * t + 8 + i] = half_of(in[l].a[2], i);
        left[g + 8][2 * t + 8 + i] = half_of(in[l].a[3], i);
        right[2 * t + i][g] = half_of(in[l].b[0], i);
        right[2 * t + 8 + i][g] = half_of(in[l].b[1], i);
      }
    }
    for (int l = 0; l < 32; ++l) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + i / 2 * 8, column = 2 * (l % 4) + i % 2;
        double sum = static_cast<double>(in[l].c[i]);
        for (int k = 0; k < 16; ++k) {
          sum += static_cast<double>(left[row][k]) * static_cast<double>(right[k][column]);
        }
        out[l].c[i] = static_cast<float>(sum);
      }
    }
  };
  const Sums sums = emulated::exchange<Sums>("mma_bf16", LRA_SITE, ~0u, mine, multiply);
  for (int i = 0; i < 4; ++i) c[i] = sums.c[i];
}

inline void load_tiles(uint32_t (&r)[4], const void* row, LRA_SITE_PARAMETERS) {
  const auto tiles = emulated::load_tiles("load_tiles", LRA_SITE, row, false, 4);
  for (int j = 0; j < 4; ++j) r[j] = tiles.r[j];
}
inline void load_tiles(uint32_t (&r)[2], const void* row, LRA_SITE_PARAMETERS) {
  const auto tiles = emulated::load_tiles("load_tiles", LRA_SITE, row, false, 2);
  for (int j = 0; j < 2; ++j) r[j] = tiles.r[j];
}
inline void load_tiles_transposed(uint32_t (&r)[4], const void* row, LRA_SITE_PARAMETERS) {
  const auto tiles = emulated::load_tiles("load_tiles_transposed", LRA_SITE, row, true, 4);
  for (int j = 0; j < 4; ++j) r[j] = tiles.r[j];
}
inline void load_tiles_transposed(uint32_t (&r)[2], const void* row, LRA_SITE_PARAMETERS) {
  const auto tiles = emulated::load_tiles("load_tiles_transposed", LRA_SITE, row, true, 2);
  for (int j = 0; j < 2; ++j) r[j] = tiles.r[j];
}

inline void store_tiles(void* row, const uint32_t (&r)[4], LRA_SITE_PARAMETERS) {
  struct In {
    unsigned short* row;
    uint32_t r[4];
  };
  struct Nothing {};
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) emulated::stop("a row is not aligned", LRA_SITE);
  emulated::wrote_tile();
  emulated::exchange<Nothing>("store_tiles", LRA_SITE, ~0u,
                              In{static_cast<unsigned short*>(row), {r[0], r[1], r[2], r[3]}},
                              [](uint32_t, const In* in, Nothing*) {
                                for (int l = 0; l < 32; ++l) {
                                  for (int j = 0; j < 4; ++j) {
                                    unsigned short* at = in[8 * j + l / 4].row + 2 * (l % 4);
                                    at[0] = static_cast<unsigned short>(in[l].r[j]);
                                    at[1] = static_cast<unsigned short>(in[l].r[j] >> 16);
                                  }
                                }
                              });
}

}  // namespace lra
