#include "tasks/pathfinder_raster.h"

#include <algorithm>
#include <cmath>

namespace lra::pathfinder {
namespace {

constexpr int kWeightBits = 22;

double sinc(double x) { return x == 0 ? 1 : direction(kPi * x).sin / (kPi * x); }
double lanczos(double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

void draw_thin_line(Canvas& canvas, Point end) {
  const int centre = canvas.size / 2;
  const int dy = std::abs(end.y), dx = std::abs(end.x), longer = std::max(dy, dx), shorter = std::min(dy, dx);
  const Point step{end.y < 0 ? -1 : 1, end.x < 0 ? -1 : 1};
  Point at{centre, centre};
  int error = 2 * shorter - longer;
  for (int i = 0; i < longer; ++i) {
    canvas.at(at.y, at.x) = 255;
    const bool aside = error >= 0;
    if (aside) error -= 2 * longer;
    error += 2 * shorter;
    if (dx > dy || aside) at.x += step.x;
    if (dx <= dy || aside) at.y += step.y;
  }
  canvas.at(centre + end.y, centre + end.x) = 255;
}

int nearest(double value) {  // halves towards zero
  const int size = static_cast<int>(std::ceil(std::abs(value) - 0.5));
  return value < 0 ? -size : size;
}

// The corners are the ends of the segment moved sideways by half of width - 1, rounded down on one side and
// up on the other; a row is filled between the cells nearest to where it meets the sides.
void draw_wide_line(Canvas& canvas, Point end, int width) {
  const int centre = canvas.size / 2, less = (width - 1) / 2, more = width / 2;
  const double length = std::sqrt(static_cast<double>(end.y * end.y + end.x * end.x));
  const Point left{nearest(more * end.x / length), -nearest(less * end.y / length)};
  const Point right{-nearest(less * end.x / length), nearest(more * end.y / length)};
  const Point corners[4] = {left, end + left, end + right, right};
  for (int y = -centre; y <= centre; ++y) {
    double first = centre, last = -centre;
    for (int i = 0; i < 4; ++i) {
      const Point a = corners[i], b = corners[(i + 1) % 4];
      if (y < std::min(a.y, b.y) || y > std::max(a.y, b.y)) continue;
      const double rise = b.y - a.y;
      const double here = rise == 0 ? a.x : a.x + (y - a.y) * (b.x - a.x) / rise;
      const double there = rise == 0 ? b.x : here;
      first = std::min({first, here, there});
      last = std::max({last, here, there});
    }
    const int stop = static_cast<int>(std::ceil(last - 0.5));
    for (int x = static_cast<int>(std::floor(first + 0.5)); x <= stop; ++x)
      canvas.at(centre + y, centre + x) = 255;
  }
}

}  // namespace

Point displacement(Direction to, int distance) {
  // A hair less than the product, so that its rounding never lifts a whole number to the next.
  constexpr double kHair = 1e-9;
  return {static_cast<int>(std::ceil(distance * to.sin - kHair)),
          static_cast<int>(std::ceil(distance * to.cos - kHair))};
}

void draw_line(Canvas& canvas, Point end, int width) {
  width == 1 ? draw_thin_line(canvas, end) : draw_wide_line(canvas, end, width);
}

Canvas dilate_disk(const Canvas& canvas, int radius) {
  Canvas out(canvas.size);
  for (int y = 0; y < canvas.size; ++y) {
    for (int x = 0; x < canvas.size; ++x) {
      if (canvas.at(y, x) == 0) continue;
      for (int i = std::max(0, y - radius); i <= std::min(canvas.size - 1, y + radius); ++i) {
        for (int j = std::max(0, x - radius); j <= std::min(canvas.size - 1, x + radius); ++j) {
          if ((i - y) * (i - y) + (j - x) * (j - x) <= radius * radius)
            out.at(i, j) = std::max(out.at(i, j), canvas.at(y, x));
        }
      }
    }
  }
  return out;
}

Resampling::Resampling(int from, int to) {
  const double ratio = static_cast<double>(from) / to, support = 3 * ratio;
  std::vector<double> values;
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * ratio;
    const int first = std::max(0, static_cast<int>(centre - support + 0.5));
    const int end = std::min(from, static_cast<int>(centre + support + 0.5));
    values.clear();
    double sum = 0;
    for (int j = first; j < end; ++j) sum += values.emplace_back(lanczos((j + 0.5 - centre) / ratio));
    Output output{first, {}};
    for (const double value : values)
      output.weights.push_back(static_cast<int32_t>(std::floor(value / sum * (1 << kWeightBits) + 0.5)));
    outputs.push_back(std::move(output));
  }
}

uint8_t rounded(int64_t weighted_sum) {
  constexpr int64_t kHalf = int64_t{1} << (kWeightBits - 1);
  return static_cast<uint8_t>(std::clamp<int64_t>((weighted_sum + kHalf) >> kWeightBits, 0, 255));
}

Canvas downsample(const Canvas& canvas, int size) {
  const Resampling resampling(canvas.size, size);
  std::vector<uint8_t> rows(static_cast<size_t>(canvas.size * size));  // [canvas.size, size]
  for (int y = 0; y < canvas.size; ++y) {
    for (int x = 0; x < size; ++x) {
      const Resampling::Output& output = resampling.outputs[static_cast<size_t>(x)];
      int64_t sum = 0;
      for (size_t i = 0; i < output.weights.size(); ++i)
        sum += output.weights[i] * int64_t{canvas.at(y, output.first + static_cast<int>(i))};
      rows[static_cast<size_t>(y * size + x)] = rounded(sum);
    }
  }
  Canvas out(size);
  for (int y = 0; y < size; ++y) {
    const Resampling::Output& output = resampling.outputs[static_cast<size_t>(y)];
    for (int x = 0; x < size; ++x) {
      int64_t sum = 0;
      for (size_t i = 0; i < output.weights.size(); ++i)
        sum += output.weights[i] *
               int64_t{rows[(static_cast<size_t>(output.first) + i) * static_cast<size_t>(size) +
                            static_cast<size_t>(x)]};
      out.at(y, x) = rounded(sum);
    }
  }
  return out;
}

int paddle_radius(const Parameters& parameters, int margin) {
  return parameters.paddle_length + static_cast<int>(std::ceil(parameters.paddle_thickness)) + margin;
}

Paddle draw_paddle(const Parameters& parameters, int margin, Point end) {
  const int r = paddle_radius(parameters, margin), s = parameters.scale;
  Canvas canvas(2 * r * s + 1);
  draw_line(canvas, end, static_cast<int>(std::lround(parameters.paddle_thickness * s)));
  return {downsample(canvas, 2 * r + 1), downsample(dilate_disk(canvas, margin * s), 2 * r + 1)};
}

MarkerRaster::MarkerRaster(const Parameters& parameters)
    : window_(parameters.window),
      scale_(parameters.scale),
      radius_(static_cast<int>(std::lround(parameters.marker_radius * parameters.scale))),
      resampling_(parameters.window * parameters.scale, parameters.window) {}

void MarkerRaster::compute(Point centre) {
  // A weight reaches less than 3 s + 1 cells from its output's centre, hence 4 pixels.
  const int reach = (radius_ + scale_ - 1) / scale_ + 4, canvas = window_ * scale_;
  top_ = std::max(0, centre.y - reach);
  left_ = std::max(0, centre.x - reach);
  height_ = std::min(window_, centre.y + reach + 1) - top_;
  width_ = std::min(window_, centre.x + reach + 1) - left_;
  const int cy = centre.y * scale_, cx = centre.x * scale_;
  const int first_row = std::max(0, cy - radius_), end_row = std::min(canvas, cy + radius_ + 1);
  rows_.resize(static_cast<size_t>((end_row - first_row) * width_));
  for (int row = first_row; row < end_row; ++row) {
    int half = radius_;  // of the disk's row
    while (half * half + (row - cy) * (row - cy) > radius_ * radius_) --half;
    for (int x = 0; x < width_; ++x) {
      const Resampling::Output& output = resampling_.outputs[static_cast<size_t>(left_ + x)];
      const int end = output.first + static_cast<int>(output.weights.size());
      int64_t sum = 0;
      for (int cell = std::max(output.first, cx - half); cell < std::min(end, cx + half + 1); ++cell)
        sum += output.weights[static_cast<size_t>(cell - output.first)];
      rows_[static_cast<size_t>((row - first_row) * width_ + x)] = rounded(255 * sum);
    }
  }
  pixels_.resize(static_cast<size_t>(height_ * width_));
  for (int y = 0; y < height_; ++y) {
    const Resampling::Output& output = resampling_.outputs[static_cast<size_t>(top_ + y)];
    const int begin = std::max(output.first, first_row);
    const int end = std::min(output.first + static_cast<int>(output.weights.size()), end_row);
    for (int x = 0; x < width_; ++x) {
      int64_t sum = 0;
      for (int row = begin; row < end; ++row)
        sum += int64_t{output.weights[static_cast<size_t>(row - output.first)]} *
               rows_[static_cast<size_t>((row - first_row) * width_ + x)];
      pixels_[static_cast<size_t>(y * width_ + x)] = rounded(sum);
    }
  }
}

}  // namespace lra::pathfinder
