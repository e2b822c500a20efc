// The Pathfinder algorithm written down step by step, on whole images and without any table, to hold the
// generator against: every dilation is of the whole mask, every candidate is computed with the library's sine
// and arc tangent, every failure starts from copies. Shares with the generator the parameters, the random
// numbers and the rasters of paddles (which are held against the Python imaging library).
#pragma once
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "tasks/pathfinder_generate.h"

namespace lra::pathfinder::reference {

// size x size values; those of masks are 0 … 255 for 0 … 1.
struct Grid {
  explicit Grid(int side, double value = 0)
      : size(side), values(static_cast<size_t>(side) * static_cast<size_t>(side), value) {}
  double& at(int y, int x) { return values[static_cast<size_t>(y * size + x)]; }
  double at(int y, int x) const { return values[static_cast<size_t>(y * size + x)]; }
  bool has(int y, int x) const { return y >= 0 && x >= 0 && y < size && x < size; }
  int size;
  std::vector<double> values;
};

void set_frame(Grid& grid, int width);  // to 255
Grid disk(int radius);                  // cells of 255
// Grey maximum filter: kernel cells of 255 count, the anchor is size div 2, cells outside the image are
// ignored.
Grid dilate(const Grid& grid, const Grid& kernel);
Grid maximum(const Grid& a, const Grid& b);
Grid paste(const Canvas& raster, Point centre, int size);  // cropped at the border
std::vector<Point> free_pixels(const Grid& grid);          // value at most 0.3
Point moved(Point from, double angle, int distance);       // T

struct Tip {
  Point at;
  double angle = 0, weight = 0;
};
// Steps 2 and 3 of an extension.
std::vector<Tip> tips(const Parameters& parameters, int margin, Point pivot, double angle,
                      const Grid& dilated);
Grid seed_kernel(const Parameters& parameters, int margin, double angle);
Paddle paddle(const Parameters& parameters, int margin, double angle);

struct Image {
  Drawn drawn;
  std::vector<uint8_t> pixels;
};
Image draw(const Parameters& parameters, uint64_t seed, uint64_t index);

}  // namespace lra::pathfinder::reference
