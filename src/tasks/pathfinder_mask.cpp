#include "tasks/pathfinder_mask.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lra::pathfinder {
namespace {

using Row = std::array<uint8_t, kRasterWidth>;

Row load(const uint8_t* from) {
  Row row;
  std::memcpy(row.data(), from, row.size());
  return row;
}

}  // namespace

Mask::Mask(const Parameters& parameters)
    : window_(parameters.window),
      stride_(parameters.window + 2 * kRasterWidth),
      cells_(static_cast<size_t>(stride_ * stride_)) {
  for (int y = 0; y < window_; ++y) {
    for (int x = 0; x < window_; ++x) {
      if (std::min({y, x, window_ - 1 - y, window_ - 1 - x}) < parameters.padding)
        cells_[static_cast<size_t>(offset({y, x}))] = 255;
    }
  }
}

void Mask::set_margin(int margin) {
  margin_ = margin;
  for (int y = -margin; y <= margin; ++y) {
    uint8_t bytes[8] = {};
    for (int x = -margin; x <= margin; ++x) bytes[x + margin] = y * y + x * x <= margin * margin ? 255 : 0;
    std::memcpy(&disk_[y + margin], bytes, 8);
  }
}

int Mask::dilated(Point q) const {
  const uint8_t* row = cells_.data() + offset({q.y - margin_, q.x - margin_});
  uint64_t words[2 * kMaxMargin + 1];
  uint64_t any = 0;
  for (int i = 0; i <= 2 * margin_; ++i, row += stride_) {
    std::memcpy(&words[i], row, 8);
    words[i] &= disk_[i];
    any |= words[i];
  }
  if (any == 0) return 0;
  uint8_t largest = 0;
  for (int i = 0; i <= 2 * margin_; ++i) {
    for (; words[i] != 0; words[i] >>= 8) largest = std::max(largest, static_cast<uint8_t>(words[i]));
  }
  return largest;
}

bool Mask::clashes(Point centre, const Raster& mask) const {
  // a + b >= 459 for bytes a, b, in bytes: max(a, 203) - 203 > 255 - b
  static_assert(kClash == 459);
  const uint8_t* at = cells_.data() + offset(centre + Point{mask.top, mask.left});
  Row found{};
  for (int y = 0; y < mask.rows; ++y, at += stride_) {
    const Row a = load(at), &b = mask.values[static_cast<size_t>(y)];
    for (size_t x = 0; x < a.size(); ++x) {
      const auto over = static_cast<uint8_t>(std::max<uint8_t>(a[x], 203) - 203);
      const auto room = static_cast<uint8_t>(255 - b[x]);
      found[x] = static_cast<uint8_t>(found[x] | (std::max(over, room) ^ room));
    }
  }
  return std::any_of(found.begin(), found.end(), [](uint8_t x) { return x != 0; });
}

void Mask::merge(Point centre, const Raster& mask) {
  const int start = offset(centre + Point{mask.top, mask.left});
  uint8_t* at = cells_.data() + start;
  log_.push_back({start, mask.rows});
  size_t end = saved_.size();
  saved_.resize(end + static_cast<size_t>(mask.rows) * kRasterWidth);
  for (int y = 0; y < mask.rows; ++y, at += stride_, end += kRasterWidth) {
    Row a = load(at);
    const Row& b = mask.values[static_cast<size_t>(y)];
    std::memcpy(saved_.data() + end, a.data(), a.size());
    for (size_t x = 0; x < a.size(); ++x) a[x] = std::max(a[x], b[x]);
    std::memcpy(at, a.data(), a.size());
  }
}

void Mask::undo_to(size_t mark) {
  for (; log_.size() > mark; log_.pop_back()) {
    const Entry& entry = log_.back();
    const size_t begin = saved_.size() - static_cast<size_t>(entry.rows) * kRasterWidth;
    uint8_t* at = cells_.data() + entry.offset;
    for (size_t from = begin; from < saved_.size(); from += kRasterWidth, at += stride_)
      std::memcpy(at, saved_.data() + from, kRasterWidth);
    saved_.resize(begin);
  }
}

void Mask::block(FreePixels& free) const {
  free.unblock();
  for (int y = 0; y < window_; ++y) free.block_row(y, cells_.data() + offset({y, 0}));
}

}  // namespace lra::pathfinder
