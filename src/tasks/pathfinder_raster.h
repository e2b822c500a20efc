// Pixels of paddles and markers: drawn on a canvas s times finer, then down-sampled.
//
//   T(c, θ, d)  = (ceil(c_y + d sin θ), ceil(c_x + d cos θ))
//   line        : from the canvas' centre (rs, rs) to T(centre, θ, ℓs), width τs;  r = ℓ + ceil τ + m
//   mask        : the line dilated with the disk of radius ms
//   Lanczos     : L(x) = sinc(x) sinc(x/3) for |x| < 3, stretched by the ratio of the sizes; the weights
//                 have 22 bits and add up to one; rows first, each pass rounded and clipped to 0 … 255
//
// Values are 0 … 255 and stand for 0 … 1. Doubles occur only in the Lanczos weights and wide lines.
#pragma once
#include <cstdint>
#include <vector>

#include "tasks/pathfinder_angle.h"
#include "tasks/pathfinder_parameters.h"

namespace lra::pathfinder {

struct Point {
  int y = 0, x = 0;
  friend bool operator==(const Point&, const Point&) = default;
  friend Point operator+(Point a, Point b) { return {a.y + b.y, a.x + b.x}; }
};

// T(0, θ, distance): centres are whole pixels, so moving one is adding this.
Point displacement(Direction to, int distance);

// A square of size x size bytes.
struct Canvas {
  explicit Canvas(int side) : size(side), cells(static_cast<size_t>(side) * static_cast<size_t>(side)) {}
  uint8_t& at(int y, int x) { return cells[static_cast<size_t>(y * size + x)]; }
  uint8_t at(int y, int x) const { return cells[static_cast<size_t>(y * size + x)]; }
  int size;
  std::vector<uint8_t> cells;
};

// From the centre to centre + end, value 255. Width 1 is Bresenham's line, wider ones are filled
// quadrilaterals; both cover the cells that the line of the Python imaging library covers.
void draw_line(Canvas& canvas, Point end, int width);
Canvas dilate_disk(const Canvas& canvas, int radius);

// Lanczos weights of a down-sampling from `from` to `to` cells.
struct Resampling {
  Resampling(int from, int to);
  struct Output {
    int first = 0;                 // first cell that counts
    std::vector<int32_t> weights;  // in units of 2^-22
  };
  std::vector<Output> outputs;
};
uint8_t rounded(int64_t weighted_sum);  // of weights of 22 bits and bytes

Canvas downsample(const Canvas& canvas, int size);

// Both rasters of a paddle, (2r+1)², centre at (r, r).
struct Paddle {
  Canvas line, mask;
};
int paddle_radius(const Parameters& parameters, int margin);  // r
Paddle draw_paddle(const Parameters& parameters, int margin, Point end);

// The disk of radius ρ around a pixel of the window: canvas cells within ρs of s·centre, down-sampled. Only
// the pixels it reaches are computed.
class MarkerRaster {
 public:
  explicit MarkerRaster(const Parameters& parameters);
  // Calls paint(pixel, value) for the pixels of the window that can be other than 0.
  template <class Paint>
  void draw(Point centre, Paint&& paint);

 private:
  void compute(Point centre);  // fills the members below

  int window_, scale_, radius_;  // radius on the canvas
  Resampling resampling_;
  int top_ = 0, left_ = 0, height_ = 0, width_ = 0;
  std::vector<uint8_t> rows_, pixels_;
};

template <class Paint>
void MarkerRaster::draw(Point centre, Paint&& paint) {
  compute(centre);
  for (int y = 0; y < height_; ++y) {
    for (int x = 0; x < width_; ++x) {
      paint(Point{top_ + y, left_ + x}, pixels_[static_cast<size_t>(y * width_ + x)]);
    }
  }
}

}  // namespace lra::pathfinder
