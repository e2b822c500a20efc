#include "support/pathfinder_reference.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace lra::pathfinder::reference {

void set_frame(Grid& grid, int width) {
  for (int y = 0; y < grid.size; ++y) {
    for (int x = 0; x < grid.size; ++x) {
      const bool outer = y < width || x < width || y >= grid.size - width || x >= grid.size - width;
      if (outer) grid.at(y, x) = 255;
    }
  }
}

Grid disk(int radius) {
  Grid out(2 * radius + 1);
  for (int y = -radius; y <= radius; ++y) {
    for (int x = -radius; x <= radius; ++x) {
      if (y * y + x * x <= radius * radius) out.at(y + radius, x + radius) = 255;
    }
  }
  return out;
}

Grid dilate(const Grid& grid, const Grid& kernel) {
  Grid out(grid.size);
  const int anchor = kernel.size / 2;
  for (int i = 0; i < kernel.size; ++i) {
    for (int j = 0; j < kernel.size; ++j) {
      if (kernel.at(i, j) < 255) continue;
      for (int y = 0; y < grid.size; ++y) {
        for (int x = 0; x < grid.size; ++x) {
          const int from_y = y + i - anchor, from_x = x + j - anchor;
          if (grid.has(from_y, from_x)) out.at(y, x) = std::max(out.at(y, x), grid.at(from_y, from_x));
        }
      }
    }
  }
  return out;
}

Grid maximum(const Grid& a, const Grid& b) {
  Grid out = a;
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = std::max(a.values[i], b.values[i]);
  return out;
}

Grid paste(const Canvas& raster, Point centre, int size) {
  Grid out(size);
  const int r = raster.size / 2;
  for (int y = 0; y < raster.size; ++y) {
    for (int x = 0; x < raster.size; ++x) {
      if (out.has(centre.y - r + y, centre.x - r + x))
        out.at(centre.y - r + y, centre.x - r + x) = raster.at(y, x);
    }
  }
  return out;
}

std::vector<Point> free_pixels(const Grid& grid) {
  std::vector<Point> out;
  for (int y = 0; y < grid.size; ++y) {
    for (int x = 0; x < grid.size; ++x) {
      if (grid.at(y, x) <= 0.3 * 255) out.push_back({y, x});
    }
  }
  return out;
}

Point moved(Point from, double angle, int distance) {
  constexpr double kRounding = 1e-9;  // of the library's sines
  return {static_cast<int>(std::ceil(from.y + distance * std::sin(angle) - kRounding)),
          static_cast<int>(std::ceil(from.x + distance * std::cos(angle) - kRounding))};
}

Paddle paddle(const Parameters& parameters, int margin, double angle) {
  return draw_paddle(parameters, margin, moved({0, 0}, angle, parameters.paddle_length * parameters.scale));
}

Grid seed_kernel(const Parameters& parameters, int margin, double angle) {
  const int reach = parameters.paddle_length + margin;
  return paste(paddle(parameters, margin, angle).mask, {reach + 1, reach + 1}, 2 * reach + 1);
}

std::vector<Tip> tips(const Parameters& parameters, int margin, Point pivot, double angle,
                      const Grid& dilated) {
  const int radius = parameters.paddle_length + margin;
  const double step = 360 / (2 * M_PI * radius);
  std::set<std::pair<int, int>> unique;
  for (int i = 0; i * step < 360; ++i) {
    const double at = i * step * M_PI / 180;
    const double y = pivot.y + radius * std::sin(at), x = pivot.x + radius * std::cos(at);
    if (y < 0 || x < 0 || y >= parameters.window || x >= parameters.window) continue;
    unique.emplace(static_cast<int>(y), static_cast<int>(x));
  }
  std::vector<Tip> out;
  for (const auto& [y, x] : unique) {
    const double to = std::atan2(y - pivot.y, x - pivot.x), apart = std::abs(to - angle);
    const double a = parameters.continuity * std::min(apart, 2 * M_PI - apart);
    const double weight = std::pow(std::cos(std::min(a, M_PI / 2)), 2);
    out.push_back({{y, x}, to, weight * (1 - dilated.at(y, x) / 255)});
  }
  return out;
}

namespace {

struct Snake {
  Point pivot, tail, tip;
  double angle = 0;
  Grid last_mask;
};

struct Literal {
  const Parameters& p;
  Rng rng;
  int margin = 0;
  Grid mask, image;

  Literal(const Parameters& parameters, uint64_t seed, uint64_t index)
      : p(parameters),
        rng(seed, stream_id("pathfinder.image"), index),
        mask(parameters.window),
        image(parameters.window) {}

  // The values of the image are 255 · 100 · 100 times the real ones.
  void add_line(const Canvas& line, Point at, int contrast) {
    Grid pasted = paste(line, at, p.window);
    for (double& value : pasted.values) value *= contrast;
    image = maximum(image, pasted);
  }

  double degrees() { return (static_cast<int>(rng.below(360)) - 180) * M_PI / 180; }

  std::optional<Snake> start(Point tail, double angle, int contrast) {
    const Point head = moved(tail, angle, p.paddle_length);
    const Point pivot = moved(head, angle < 0 ? angle + M_PI : angle - M_PI, p.paddle_length + margin);
    if (!mask.has(head.y, head.x) || !mask.has(pivot.y, pivot.x)) return std::nullopt;
    const Paddle drawn = paddle(p, margin, angle);
    add_line(drawn.line, tail, contrast);
    return Snake{pivot, tail, tail, angle, paste(drawn.mask, tail, p.window)};
  }

  std::optional<Snake> seed(int frame, bool scarce, int contrast) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double angle = degrees();
      Grid framed = mask;
      set_frame(framed, frame);
      const std::vector<Point> fits = free_pixels(dilate(framed, seed_kernel(p, margin, angle)));
      const auto free = static_cast<double>(free_pixels(mask).size());
      if (scarce && free / (p.window * p.window) < 0.01) return std::nullopt;
      if (fits.empty()) return std::nullopt;
      if (auto snake = start(fits[rng.below(static_cast<uint32_t>(fits.size()))], angle, contrast))
        return snake;
    }
    return std::nullopt;
  }

  std::optional<Snake> seed_beside(Point first, int contrast) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double angle = degrees(), around = static_cast<int>(rng.below(360)) * M_PI / 180;
      // Halves to even, once the library's rounding is gone: its sine of 30 degrees is not quite 0.5.
      const auto nearest = [](double value) {
        return static_cast<int>(std::nearbyint(std::nearbyint(value * 1e9) / 1e9));
      };
      const Point tail{nearest(first.y + p.seed_distance * std::sin(around)),
                       nearest(first.x + p.seed_distance * std::cos(around))};
      if (auto snake = start(tail, angle, contrast)) return snake;
    }
    return std::nullopt;
  }

  bool extend(Snake& snake, int contrast) {
    const Point pivot = moved(snake.pivot, snake.angle, p.paddle_length + 2 * margin);
    const std::vector<Tip> all = tips(p, margin, pivot, snake.angle, dilate(mask, disk(margin)));
    double sum = 0;
    for (const Tip& tip : all) sum += tip.weight;
    if (sum < 1e-4) return false;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double at = rng.uniform() * sum;
      size_t chosen = 0;
      for (double before = all[0].weight; before <= at; before += all[chosen].weight) ++chosen;
      const Tip& tip = all[chosen];
      const Paddle drawn = paddle(p, margin, tip.angle < 0 ? tip.angle + M_PI : tip.angle - M_PI);
      const Grid added = paste(drawn.mask, tip.at, p.window);
      double largest = 0;
      for (size_t i = 0; i < added.values.size(); ++i)
        largest = std::max(largest, mask.values[i] + added.values[i]);
      if (largest >= 1.8 * 255) continue;
      add_line(drawn.line, tip.at, contrast);
      mask = maximum(mask, snake.last_mask);
      snake = {pivot, snake.tail, tip.at, tip.angle, added};
      return true;
    }
    return false;
  }

  std::optional<std::pair<Snake, Snake>> targets() {
    const int contrast = p.snake_contrast * p.paddle_contrast;
    auto one = seed(p.seed_frame, false, contrast);
    if (!one) return std::nullopt;
    auto two = seed_beside(one->tail, contrast);
    if (!two) return std::nullopt;
    for (int i = 0; i < p.contour_length - 1; ++i) {
      if (!extend(*one, contrast) || !extend(*two, contrast)) return std::nullopt;
    }
    mask = maximum(mask, two->last_mask);
    return std::pair{*one, *two};
  }

  bool distractor() {
    const int contrast = p.snake_contrast * 100;
    auto snake = seed(1, true, contrast);
    if (!snake) return false;
    for (int i = 0; i < p.distractor_length - 1; ++i) {
      if (!extend(*snake, contrast)) return false;
    }
    mask = maximum(mask, snake->last_mask);
    return true;
  }

  void add_marker(Point at) {
    Canvas canvas(p.window * p.scale);
    const double radius = p.marker_radius * p.scale;
    for (int y = 0; y < canvas.size; ++y) {
      for (int x = 0; x < canvas.size; ++x) {
        const int dy = y - p.scale * at.y, dx = x - p.scale * at.x;
        if (dy * dy + dx * dx <= radius * radius) canvas.at(y, x) = 255;
      }
    }
    const Canvas small = downsample(canvas, p.window);
    for (size_t i = 0; i < small.cells.size(); ++i)
      image.values[i] = std::max(image.values[i], small.cells[i] * 1e4);
  }
};

}  // namespace

Image draw(const Parameters& parameters, uint64_t seed, uint64_t index) {
  Literal s(parameters, seed, index);
  Image out;
  out.drawn.label = static_cast<int>(s.rng.below(2));
  s.margin = out.drawn.margin =
      parameters.margins[s.rng.below(static_cast<uint32_t>(parameters.margins.size()))];
  std::optional<std::pair<Snake, Snake>> pair;
  while (!pair) {
    ++out.drawn.pairs;
    s.image = Grid(parameters.window);
    s.mask = Grid(parameters.window);
    set_frame(s.mask, parameters.padding);
    pair = s.targets();
  }
  for (int i = 0; i < parameters.distractors; ++i) {
    for (int attempt = 0; attempt < 5; ++attempt) {
      const Grid mask = s.mask, image = s.image;
      if (s.distractor()) {
        ++out.drawn.distractors;
        break;
      }
      s.mask = mask;
      s.image = image;
    }
  }
  const bool first = s.rng.below(2) == 0, second = out.drawn.label == 1 ? first : !first;
  out.drawn.markers[0] = first ? pair->first.tail : pair->second.tail;
  out.drawn.markers[1] = second ? pair->first.tip : pair->second.tip;
  for (const Point marker : out.drawn.markers) s.add_marker(marker);
  const auto [low, high] = std::minmax_element(s.image.values.begin(), s.image.values.end());
  for (const double value : s.image.values)
    out.pixels.push_back(static_cast<uint8_t>((value - *low) * 255 / (*high - *low) + 0.5));
  return out;
}

}  // namespace lra::pathfinder::reference
