#include "tasks/pathfinder_free.h"

#include <algorithm>
#include <bit>

namespace lra::pathfinder {

FreePixels::FreePixels(int window)
    : window_(window),
      words_((window + 63) / 64),
      last_word_(~uint64_t{0} >> (words_ * 64 - window)),
      blocked_(static_cast<size_t>(window * words_)),
      free_(blocked_.size()) {}

void FreePixels::unblock() { std::fill(blocked_.begin(), blocked_.end(), 0); }

void FreePixels::block_row(int y, const uint8_t* mask) {
  uint64_t* row = blocked_.data() + y * words_;
  for (int w = 0; w < words_; ++w) {
    const int bits = std::min(64, window_ - 64 * w);
    uint64_t word = 0;
    for (int i = 0; i < bits; ++i) word |= uint64_t{mask[64 * w + i] > kFree} << i;
    row[w] |= word;
  }
}

void FreePixels::block_frame(int width) {
  for (int y = 0; y < window_; ++y) {
    for (int x = 0; x < window_; ++x) {
      if (std::min({y, x, window_ - 1 - y, window_ - 1 - x}) < width)
        blocked_[static_cast<size_t>(y * words_ + x / 64)] |= uint64_t{1} << (x % 64);
    }
  }
}

uint32_t FreePixels::unblocked() const {
  uint32_t count = static_cast<uint32_t>(window_ * window_);
  for (const uint64_t word : blocked_) count -= static_cast<uint32_t>(std::popcount(word));
  return count;
}

uint32_t FreePixels::find(std::span<const Point> kernel) {
  std::fill(free_.begin(), free_.end(), 0);  // holds what is not free until the end
  for (const Point cell : kernel) {
    const int shift = std::abs(cell.x);  // below 64: a kernel is no wider than a raster
    for (int y = std::max(0, -cell.y); y < std::min(window_, window_ - cell.y); ++y) {
      const uint64_t* from = blocked_.data() + (y + cell.y) * words_;
      uint64_t* to = free_.data() + y * words_;
      for (int w = 0; w < words_; ++w) {
        uint64_t word = cell.x >= 0 ? from[w] >> shift : from[w] << shift;
        const int beside = cell.x >= 0 ? w + 1 : w - 1;
        if (shift > 0 && beside >= 0 && beside < words_)
          word |= cell.x >= 0 ? from[beside] << (64 - shift) : from[beside] >> (64 - shift);
        to[w] |= word;
      }
    }
  }
  uint32_t count = 0;
  for (size_t i = 0; i < free_.size(); ++i) {
    const bool last = i % static_cast<size_t>(words_) == static_cast<size_t>(words_) - 1;
    free_[i] = ~free_[i] & (last ? last_word_ : ~uint64_t{0});
    count += static_cast<uint32_t>(std::popcount(free_[i]));
  }
  return count;
}

Point FreePixels::pixel(uint32_t i) const {
  size_t at = 0;
  for (;; ++at) {
    const auto here = static_cast<uint32_t>(std::popcount(free_[at]));
    if (i < here) break;
    i -= here;
  }
  uint64_t word = free_[at];
  for (; i > 0; --i) word &= word - 1;
  const auto row = static_cast<int>(at) / words_, column = static_cast<int>(at) % words_;
  return {row, 64 * column + std::countr_zero(word)};
}

std::vector<Run> FreePixels::runs() const {
  std::vector<Run> runs;
  uint32_t before = 0;
  for (int y = 0; y < window_; ++y) {
    for (int x = 0; x < window_; ++x) {
      if ((free_[static_cast<size_t>(y * words_ + x / 64)] >> (x % 64) & 1) == 0) continue;
      if (runs.empty() || runs.back().y != y || runs.back().x + static_cast<int>(runs.back().count) != x)
        runs.push_back({y, x, 0, before});
      ++runs.back().count;
      ++before;
    }
  }
  return runs;
}

Point pixel_in(std::span<const Run> runs, uint32_t i) {
  const auto after = std::upper_bound(runs.begin(), runs.end(), i,
                                      [](uint32_t index, const Run& run) { return index < run.before; });
  const Run& run = *(after - 1);
  return {run.y, run.x + static_cast<int>(i - run.before)};
}

}  // namespace lra::pathfinder
