// What the Pathfinder generator would otherwise compute again for every paddle.
//
// Centres are whole pixels and an angle is a whole degree (the first paddle of a snake) or that of a whole
// offset (every further one), so there are finitely many angles, rasters, moves and weights for a margin m:
//
//   candidates  offsets q of the next tip from the pivot: (ℓ+m)(sin, cos) at i/(ℓ+m) radians, rounded down,
//               each once, sorted by (y, x)
//   weight      of candidate q after angle θ: cos²(min(κ a, π/2)), a the angle between θ and q
//   seed kernel cells k of a paddle's mask with value 1, one down and one to the right of where they are, cut
//               at ± (ℓ+m): a seed at p needs every p + k free
//
// Angles 0 … 359 are the degrees -180 … 179; angle 360 + i is the direction of candidate i.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tasks/pathfinder_free.h"
#include "tasks/pathfinder_raster.h"

namespace lra::pathfinder {

inline constexpr int kDegrees = 360;
inline constexpr int kMaxMargin = 3;     // a disk's row fits into eight bytes
inline constexpr int kRasterWidth = 32;  // bytes of a row

// The rows and columns of a paddle that are not all zero. (top, left) is from the paddle's centre; rows are
// kRasterWidth bytes with zeros to the right, so that loops over them have a fixed length.
struct Raster {
  int top = 0, left = 0, rows = 0;
  std::vector<std::array<uint8_t, kRasterWidth>> values;
};

struct PaddleRaster {
  Point end;  // of the line on the canvas: what the raster is made from
  Raster line, mask;
  std::vector<Point> seed_kernel;
  std::vector<Run> first_seeds;  // free pixels for the first target, whose frame is 2Δ wide
  uint32_t first_seed_count = 0;
};

struct Candidate {
  Point offset;
  int paddle = 0;  // raster of the paddle from here back to the pivot
};

struct Weighted {
  int candidate = 0;
  double weight = 0;
};

struct Angle {
  Point head;                  // from the tail of a seed
  Point pivot;                 // from the tail of a seed
  Point step;                  // from a pivot to the next
  int paddle = 0;              // raster of a paddle that starts in this direction
  std::vector<Weighted> next;  // candidates of positive weight, in the order of candidates
};

struct Tables {
  Tables(const Parameters& parameters, int margin);

  int margin;
  std::vector<PaddleRaster> paddles;
  std::vector<Candidate> candidates;
  std::vector<Angle> angles;

 private:
  int paddle_index(const Parameters& parameters, Direction to);
};

inline int angle_of_degrees(int degrees) { return degrees + 180; }
inline int angle_of_candidate(int candidate) { return kDegrees + candidate; }

}  // namespace lra::pathfinder
