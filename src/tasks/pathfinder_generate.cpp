#include "tasks/pathfinder_generate.h"

#include <algorithm>
#include <cmath>

namespace lra::pathfinder {
namespace {

constexpr uint32_t kFullContrast = 100 * 100;
constexpr double kLeastWeight = 1e-4;  // of all tips together
// Far above what any of the parameters needs (about 1 300 at 64 x 64): others may allow no pair at all.
constexpr int64_t kMostPairs = 10'000'000;

}  // namespace

Blueprint::Blueprint(const Parameters& p) : parameters(p) {
  if (p.padding < 1) fail("pathfinder", "padding is {}: the mask needs a frame of at least 1.", p.padding);
  for (const int margin : p.margins) tables.emplace_back(p, margin);
}

Generator::Generator(std::shared_ptr<const Blueprint> blueprint)
    : blueprint_(std::move(blueprint)),
      parameters_(blueprint_->parameters),
      mask_(parameters_),
      free_(parameters_.window),
      marker_(parameters_),
      stride_(parameters_.window + 2 * kRasterWidth),
      image_(static_cast<size_t>(stride_ * stride_)) {
  // Without their last bits, so that halves (at 30 degrees) are halves.
  const auto clean = [](double value) { return std::nearbyint(value * 0x1p32) * 0x1p-32; };
  for (int degrees = 0; degrees < kDegrees; ++degrees) {
    const Direction to = direction_of_degrees(degrees);
    circle_[0].push_back(clean(parameters_.seed_distance * to.sin));
    circle_[1].push_back(clean(parameters_.seed_distance * to.cos));
  }
}

Drawn Generator::draw(uint64_t seed, uint64_t index, uint8_t* pixels) {
  Rng rng(seed, stream_id("pathfinder.image"), index);
  Drawn drawn;
  drawn.label = static_cast<int>(rng.below(2));
  tables_ = &blueprint_->tables[rng.below(static_cast<uint32_t>(blueprint_->tables.size()))];
  drawn.margin = tables_->margin;
  int length = parameters_.contour_length;
  if (parameters_.shortest_contour > 0) {
    const int shortest = parameters_.shortest_contour;
    length = shortest + static_cast<int>(rng.below(static_cast<uint32_t>(length - shortest + 1)));
  }
  mask_.undo_to(0);
  mask_.set_margin(tables_->margin);
  std::fill(image_.begin(), image_.end(), 0);
  do {
    if (++drawn.pairs > kMostPairs)
      fail("pathfinder",
           "image {} of seed {}: no pair of contours of {} paddles fits into {} x {} pixels after {} "
           "attempts.",
           index, seed, length, parameters_.window, parameters_.window, kMostPairs);
    mask_.undo_to(0);
  } while (!draw_targets(rng, length));
  merge_last(targets_[1]);  // the last paddle of the first target stays out
  const auto snake = static_cast<uint32_t>(parameters_.snake_contrast);
  for (const Snake& target : targets_)
    paint(target, snake * static_cast<uint32_t>(parameters_.paddle_contrast));
  for (int i = 0; i < parameters_.distractors; ++i) {
    for (int attempt = 0; attempt < parameters_.distractor_attempts; ++attempt) {
      const size_t before = mask_.mark();
      if (draw_distractor(rng)) {
        paint(distractor_, snake * 100);
        ++drawn.distractors;
        break;
      }
      mask_.undo_to(before);
    }
  }
  const uint32_t first = rng.below(2), second = drawn.label == 1 ? first : 1 - first;
  drawn.markers[0] = targets_[first].paddles.front().centre;
  drawn.markers[1] = targets_[second].paddles.back().centre;
  for (const Point marker : drawn.markers) paint_marker(marker);
  write(pixels);
  return drawn;
}

bool Generator::draw_targets(Rng& rng, int length) {
  if (!seed_first_target(rng, targets_[0])) return false;
  if (!seed_second_target(rng, targets_[1], targets_[0].paddles.front().centre)) return false;
  for (int i = 1; i < length; ++i) {
    for (Snake& target : targets_) {
      if (!extend(rng, target)) return false;
    }
  }
  return true;
}

bool Generator::draw_distractor(Rng& rng) {
  if (!seed_distractor(rng, distractor_)) return false;
  for (int i = 1; i < parameters_.distractor_length; ++i) {
    if (!extend(rng, distractor_)) return false;
  }
  merge_last(distractor_);
  return true;
}

bool Generator::seed_first_target(Rng& rng, Snake& snake) const {
  for (int attempt = 0; attempt < parameters_.paddle_attempts; ++attempt) {
    const auto angle = static_cast<int>(rng.below(kDegrees));
    const PaddleRaster& paddle =
        tables_->paddles[static_cast<size_t>(tables_->angles[static_cast<size_t>(angle)].paddle)];
    if (paddle.first_seed_count == 0) return false;
    if (start(snake, pixel_in(paddle.first_seeds, rng.below(paddle.first_seed_count)), angle)) return true;
  }
  return false;
}

bool Generator::seed_second_target(Rng& rng, Snake& snake, Point first_tail) const {
  for (int attempt = 0; attempt < parameters_.paddle_attempts; ++attempt) {
    const auto angle = static_cast<int>(rng.below(kDegrees));
    const uint32_t around = rng.below(kDegrees);
    // Halves go to the even number.
    const Point tail{static_cast<int>(std::nearbyint(first_tail.y + circle_[0][around])),
                     static_cast<int>(std::nearbyint(first_tail.x + circle_[1][around]))};
    if (start(snake, tail, angle)) return true;
  }
  return false;
}

bool Generator::seed_distractor(Rng& rng, Snake& snake) {
  mask_.block(free_);
  const uint32_t area = static_cast<uint32_t>(parameters_.window * parameters_.window);
  if (free_.unblocked() * 100 < area) return false;
  free_.block_frame(1);
  for (int attempt = 0; attempt < parameters_.paddle_attempts; ++attempt) {
    const auto angle = static_cast<int>(rng.below(kDegrees));
    const int paddle = tables_->angles[static_cast<size_t>(angle)].paddle;
    const uint32_t count = free_.find(tables_->paddles[static_cast<size_t>(paddle)].seed_kernel);
    if (count == 0) return false;
    if (start(snake, free_.pixel(rng.below(count)), angle)) return true;
  }
  return false;
}

bool Generator::start(Snake& snake, Point tail, int angle) const {
  const Angle& turn = tables_->angles[static_cast<size_t>(angle)];
  snake.pivot = tail + turn.pivot;
  snake.angle = angle;
  snake.paddles.clear();
  snake.paddles.push_back({tail, turn.paddle});
  return inside(tail + turn.head) && inside(snake.pivot);
}

bool Generator::extend(Rng& rng, Snake& snake) {
  const Angle& turn = tables_->angles[static_cast<size_t>(snake.angle)];
  const Point pivot = snake.pivot + turn.step;
  sums_.clear();
  tips_.clear();
  double sum = 0;
  for (const Weighted& next : turn.next) {
    const Point tip = pivot + tables_->candidates[static_cast<size_t>(next.candidate)].offset;
    if (!inside(tip)) continue;
    const int room = 255 - mask_.dilated(tip);
    if (room == 0) continue;
    sum += next.weight * (room / 255.0);
    sums_.push_back(sum);
    tips_.push_back(next.candidate);
  }
  if (sum < kLeastWeight) return false;
  for (int attempt = 0; attempt < parameters_.paddle_attempts; ++attempt) {
    const double at = rng.uniform() * sum;
    size_t chosen = 0;
    while (chosen + 1 < sums_.size() && sums_[chosen] <= at) ++chosen;
    const Candidate& tip = tables_->candidates[static_cast<size_t>(tips_[chosen])];
    if (mask_.clashes(pivot + tip.offset, tables_->paddles[static_cast<size_t>(tip.paddle)].mask)) continue;
    merge_last(snake);
    snake.pivot = pivot;
    snake.angle = angle_of_candidate(tips_[chosen]);
    snake.paddles.push_back({pivot + tip.offset, tip.paddle});
    return true;
  }
  return false;
}

void Generator::merge_last(const Snake& snake) {
  const Placed& last = snake.paddles.back();
  mask_.merge(last.centre, tables_->paddles[static_cast<size_t>(last.paddle)].mask);
}

void Generator::paint(const Snake& snake, uint32_t contrast) {
  for (const Placed& placed : snake.paddles) {
    const Raster& line = tables_->paddles[static_cast<size_t>(placed.paddle)].line;
    uint32_t* at = image_.data() + (placed.centre.y + line.top + kRasterWidth) * stride_ + placed.centre.x +
                   line.left + kRasterWidth;
    for (const auto& row : line.values) {
      for (size_t x = 0; x < row.size(); ++x) at[x] = std::max(at[x], row[x] * contrast);
      at += stride_;
    }
  }
}

void Generator::paint_marker(Point centre) {
  marker_.draw(centre, [&](Point pixel, uint8_t value) {
    uint32_t& at = image_[static_cast<size_t>((pixel.y + kRasterWidth) * stride_ + pixel.x + kRasterWidth)];
    at = std::max(at, value * kFullContrast);
  });
}

// 255 (v - min) / (max - min), rounded to the nearest.
void Generator::write(uint8_t* pixels) const {
  const auto row = [&](int y) { return image_.data() + (y + kRasterWidth) * stride_ + kRasterWidth; };
  uint32_t low = UINT32_MAX, high = 0;
  for (int y = 0; y < parameters_.window; ++y) {
    const auto [least, most] = std::minmax_element(row(y), row(y) + parameters_.window);
    low = std::min(low, *least);
    high = std::max(high, *most);
  }
  const uint64_t range = high - low;  // the markers are in the image: not 0
  for (int y = 0; y < parameters_.window; ++y) {
    for (int x = 0; x < parameters_.window; ++x) {
      const uint64_t value = row(y)[x] - low;
      *pixels++ = value == 0 ? 0 : static_cast<uint8_t>((2 * 255 * value + range) / (2 * range));
    }
  }
}

bool Generator::inside(Point p) const {
  return std::min(p.y, p.x) >= 0 && std::max(p.y, p.x) < parameters_.window;
}

}  // namespace lra::pathfinder
