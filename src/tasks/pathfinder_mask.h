// The mask M of a Pathfinder image: where paddles may no longer go. Values 0 … 255 stand for 0 … 1.
//
//   dilated(q)   max of M over the disk of radius m around q, for the few pixels that are asked for
//   clashes      max(M + mask of a paddle) >= 1.8
//   merge        M = max(M, mask of a paddle); kept in a log, so that a discarded snake costs what it drew
//
// M has a rim of a raster's width around the window, so that nothing is ever cropped. Paddles write into it;
// that changes no answer, because the window's outermost pixels are 255 (p >= 1): a disk that reaches the rim
// from a pixel of the window has one of them in it, and so has the part of a paddle that can clash (a mask's
// cells of 0.8 and more are connected, and its centre lies in the window).
#pragma once
#include <cstdint>
#include <vector>

#include "tasks/pathfinder_free.h"
#include "tasks/pathfinder_tables.h"

namespace lra::pathfinder {

inline constexpr int kClash = 459;  // 1.8 of 255

class Mask {
 public:
  explicit Mask(const Parameters& parameters);

  void set_margin(int margin);  // the disk's radius
  int dilated(Point q) const;
  bool clashes(Point centre, const Raster& mask) const;
  void merge(Point centre, const Raster& mask);

  size_t mark() const { return log_.size(); }
  void undo_to(size_t mark);  // M as it was when mark() gave this; 0 leaves the frame of width p alone

  void block(FreePixels& free) const;
  uint8_t at(Point q) const { return cells_[static_cast<size_t>(offset(q))]; }

 private:
  struct Entry {
    int offset = 0, rows = 0;
  };
  int offset(Point q) const { return (q.y + kRasterWidth) * stride_ + q.x + kRasterWidth; }

  int window_, stride_, margin_ = 0;
  uint64_t disk_[2 * kMaxMargin + 1] = {};  // bytes of a row of the disk, from -m on
  std::vector<uint8_t> cells_, saved_;
  std::vector<Entry> log_;
};

}  // namespace lra::pathfinder
