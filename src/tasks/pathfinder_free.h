// Where a paddle fits: the pixels p of a window for which no blocked pixel is under p + k, for any cell k of
// a kernel. That is the grey dilation D(p) = max_k M(p + k) compared with the bound of a free pixel; only
// which pixels are blocked matters, so a row is a row of bits and a kernel cell costs one shift and one or a
// word. Cells outside the window are ignored, so a pixel is free where the whole kernel lies outside.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tasks/pathfinder_raster.h"

namespace lra::pathfinder {

inline constexpr int kFree = 76;  // the largest value of a free pixel: 0.3 of 255, rounded down

// Pixels x … x + count - 1 of row y; `before` pixels are in earlier runs.
struct Run {
  int y = 0, x = 0;
  uint32_t count = 0, before = 0;
};

class FreePixels {
 public:
  explicit FreePixels(int window);

  void unblock();                              // blocks nothing
  void block_row(int y, const uint8_t* mask);  // the pixels of a row of a mask that are not free
  void block_frame(int width);                 // the outermost pixels
  uint32_t unblocked() const;

  // How many pixels the kernel fits at; pixel(i) is the i-th of them in the order of rows.
  uint32_t find(std::span<const Point> kernel);
  Point pixel(uint32_t i) const;
  std::vector<Run> runs() const;  // the same pixels, to be kept

 private:
  int window_, words_;  // words of 64 pixels in a row
  uint64_t last_word_;  // which bits of a row's last word are pixels
  std::vector<uint64_t> blocked_, free_;
};

Point pixel_in(std::span<const Run> runs, uint32_t i);

}  // namespace lra::pathfinder
