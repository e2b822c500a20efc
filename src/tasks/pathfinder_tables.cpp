#include "tasks/pathfinder_tables.h"

#include <algorithm>
#include <cmath>

namespace lra::pathfinder {
namespace {

Raster trimmed(const Canvas& canvas) {
  const int centre = canvas.size / 2;
  Point first{canvas.size, canvas.size}, last{-1, -1};
  for (int y = 0; y < canvas.size; ++y) {
    for (int x = 0; x < canvas.size; ++x) {
      if (canvas.at(y, x) == 0) continue;
      first = {std::min(first.y, y), std::min(first.x, x)};
      last = {std::max(last.y, y), std::max(last.x, x)};
    }
  }
  Raster raster{first.y - centre, first.x - centre, last.y - first.y + 1, {}};
  raster.values.resize(static_cast<size_t>(raster.rows));
  for (int y = first.y; y <= last.y; ++y) {
    for (int x = first.x; x <= last.x; ++x)
      raster.values[static_cast<size_t>(y - first.y)][static_cast<size_t>(x - first.x)] = canvas.at(y, x);
  }
  return raster;
}

std::vector<Point> seed_kernel(const Canvas& mask, int reach) {
  const int centre = mask.size / 2;
  std::vector<Point> cells;
  for (int y = 0; y < mask.size; ++y) {
    for (int x = 0; x < mask.size; ++x) {
      const Point cell{y - centre + 1, x - centre + 1};
      if (mask.at(y, x) == 255 && std::abs(cell.y) <= reach && std::abs(cell.x) <= reach)
        cells.push_back(cell);
    }
  }
  return cells;
}

std::vector<Point> candidate_offsets(int radius) {
  std::vector<Point> offsets;
  for (int i = 0; i < 2 * kPi * radius; ++i) {
    const Direction to = direction(static_cast<double>(i) / radius);
    offsets.push_back(
        {static_cast<int>(std::floor(radius * to.sin)), static_cast<int>(std::floor(radius * to.cos))});
  }
  const auto before = [](Point a, Point b) { return a.y != b.y ? a.y < b.y : a.x < b.x; };
  std::sort(offsets.begin(), offsets.end(), before);
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

Direction direction_of(Point offset) {
  const double length = std::sqrt(static_cast<double>(offset.y * offset.y + offset.x * offset.x));
  return {offset.y / length, offset.x / length};
}

Direction reversed(Direction d) { return {-d.sin, -d.cos}; }

double continuity_weight(double continuity, double from, double to) {
  const double apart = std::abs(to - from), a = continuity * std::min(apart, 2 * kPi - apart);
  if (a >= kPi / 2) return 0;
  const double cos = direction(a).cos;
  return cos * cos;
}

}  // namespace

int Tables::paddle_index(const Parameters& parameters, Direction to) {
  const Point end = displacement(to, parameters.paddle_length * parameters.scale);
  const auto same = [&](const PaddleRaster& paddle) { return paddle.end == end; };
  const auto found = std::find_if(paddles.begin(), paddles.end(), same);
  if (found != paddles.end()) return static_cast<int>(found - paddles.begin());
  const Paddle drawn = draw_paddle(parameters, margin, end);
  paddles.push_back({end,
                     trimmed(drawn.line),
                     trimmed(drawn.mask),
                     seed_kernel(drawn.mask, parameters.paddle_length + margin),
                     {},
                     0});
  return static_cast<int>(paddles.size()) - 1;
}

Tables::Tables(const Parameters& parameters, int m) : margin(m) {
  const int length = parameters.paddle_length, width = 2 * paddle_radius(parameters, margin) + 1;
  if (margin < 1 || margin > kMaxMargin || width > kRasterWidth)
    fail("pathfinder",
         "margin {} with paddles of {} pixels: margins are 1 to {}, a paddle's raster is at most {} wide.",
         margin, length, kMaxMargin, kRasterWidth);
  std::vector<double> radians;
  const auto add_angle = [&](Direction to, double angle) {
    const Point head = displacement(to, length);
    const Point pivot = head + displacement(reversed(to), length + margin);
    angles.push_back({head, pivot, displacement(to, length + 2 * margin), 0, {}});
    radians.push_back(angle);
  };
  for (int degrees = -180; degrees < 180; ++degrees) {
    const Direction to = direction_of_degrees(degrees);
    add_angle(to, degrees * (kPi / 180));
    angles.back().paddle = paddle_index(parameters, to);
  }
  for (const Point offset : candidate_offsets(length + margin)) {
    const Direction to = direction_of(offset);
    add_angle(to, angle_of(offset.y, offset.x));
    angles.back().paddle = paddle_index(parameters, to);
    candidates.push_back({offset, paddle_index(parameters, reversed(to))});
  }
  for (size_t from = 0; from < angles.size(); ++from) {
    for (size_t to = 0; to < candidates.size(); ++to) {
      const double weight = continuity_weight(parameters.continuity, radians[from], radians[kDegrees + to]);
      if (weight > 0) angles[from].next.push_back({static_cast<int>(to), weight});
    }
  }
  FreePixels free(parameters.window);
  free.block_frame(std::max(parameters.padding, parameters.seed_frame));
  for (PaddleRaster& paddle : paddles) {
    paddle.first_seed_count = free.find(paddle.seed_kernel);
    paddle.first_seeds = free.runs();
  }
}

}  // namespace lra::pathfinder
