// Pathfinder images: two long snakes of paddles among short ones, and two round markers on tips of the long
// ones. Label 1: both markers are on the same snake. After "Learning long-range spatial dependencies with
// horizontal gated recurrent units" (Linsley et al., 2018), with the parameters of the Long Range Arena.
//
// Points are (y, x); a paddle is a line of length ℓ from its tail; T(c, θ, d) is c moved by d in direction θ,
// rounded up (pathfinder_raster.h); M is the mask of pixels in use (pathfinder_mask.h), free up to 0.3.
//
// seed     θ a whole degree. The mask of a paddle at θ, one pixel off, must touch free pixels of M only, and
//          not the window's frame of width 1 (2Δ for the first target). tail = one of the pixels where it
//          fits, head = T(tail, θ, ℓ), pivot = T(head, θ ± π, ℓ+m); three attempts to have both in the
//          window. No pixel where it fits, or (distractors) less than 1 % of M free: failed.
// extend   pivot' = T(pivot, θ, ℓ+2m). A tip q, ℓ+m from it in direction φ, is drawn with weight
//          cos²(min(κ a, π/2)) (1 - D(q)): a is the angle between θ and φ, D is M dilated with the disk of
//          radius m. The paddle lies from q towards pivot' and must not clash: max(M + its mask) < 1.8; three
//          draws. M takes in the paddle *before* this one; then pivot = pivot', θ = φ.
// image    1. Label and margin m.
//          2. M is the frame of width p. Seed target 1; target 2 starts Δ from its tail, in any direction.
//          3. Extend both in turn to n_c paddles. Any failure discards the pair: back to 2.
//          4. M takes in the last paddle of target 2, and never that of target 1.
//          5. N_d distractors of n_d paddles, five attempts each; M takes in the last paddle, too.
//          6. Markers on the first tail of one target and on the last tip of the same (label 1) or of the
//             other (label 0).
//          7. Stretch to 0 … 255.
//
//   const auto blueprint = std::make_shared<const Blueprint>(parameters_of(32, Difficulty::kHard));
//   Generator generator(blueprint);                       // one a thread
//   const Drawn drawn = generator.draw(seed, i, pixels);  // pixels: W * W bytes
//
// Image i is a function of parameters, seed and i alone: integers, and exactly rounded operations on doubles.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/philox.h"
#include "tasks/pathfinder_mask.h"
#include "tasks/pathfinder_tables.h"

namespace lra::pathfinder {

struct Drawn {
  int label = 0;
  int margin = 0;
  int64_t pairs = 0;    // of targets tried, the last included
  int distractors = 0;  // placed
  Point markers[2];     // on a first tail, on a last tip
};

// Parameters and the tables made from them, shared by the generators of all threads.
struct Blueprint {
  explicit Blueprint(const Parameters& parameters);
  Parameters parameters;
  std::vector<Tables> tables;  // one for each margin
};

// Draws images one after another; keeps its buffers between them. One per thread.
class Generator {
 public:
  explicit Generator(std::shared_ptr<const Blueprint> blueprint);
  Drawn draw(uint64_t seed, uint64_t index, uint8_t* pixels);

 private:
  struct Placed {
    Point centre;
    int paddle = 0;
  };
  struct Snake {
    Point pivot;
    int angle = 0;
    std::vector<Placed> paddles;  // the last is not in the mask yet
  };

  bool draw_targets(Rng& rng, int length);
  bool draw_distractor(Rng& rng);
  bool seed_first_target(Rng& rng, Snake& snake) const;
  bool seed_second_target(Rng& rng, Snake& snake, Point first_tail) const;
  bool seed_distractor(Rng& rng, Snake& snake);
  bool start(Snake& snake, Point tail, int angle) const;
  bool extend(Rng& rng, Snake& snake);
  void merge_last(const Snake& snake);
  void paint(const Snake& snake, uint32_t contrast);
  void paint_marker(Point centre);
  void write(uint8_t* pixels) const;
  bool inside(Point p) const;

  std::shared_ptr<const Blueprint> blueprint_;
  const Parameters& parameters_;
  const Tables* tables_ = nullptr;             // of this image's margin
  std::array<std::vector<double>, 2> circle_;  // Δ sin β, Δ cos β for whole degrees β
  Mask mask_;
  FreePixels free_;
  MarkerRaster marker_;
  Snake targets_[2], distractor_;
  std::vector<double> sums_;  // of the weights of the tips in tips_
  std::vector<int> tips_;     // candidates inside the window
  // Values of the image times 255 · 10⁴ (contrasts are products of per cents), with a rim as in the mask.
  int stride_;
  std::vector<uint32_t> image_;
};

}  // namespace lra::pathfinder
