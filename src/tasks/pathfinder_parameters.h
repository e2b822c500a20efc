// The parameters of the Pathfinder images, with the symbols of the algorithm in pathfinder_generate.h.
//
//   W window · p border padding · s anti-alias scale · Δ seed distance · ρ marker radius · ℓ paddle length
//   τ paddle thickness · m paddle margin · κ continuity · n_c paddles of a target · n_d of a distractor
//   N_d distractors · c_s contrast of a snake · c_p further contrast of the targets' paddles
//
// The four resolutions and three difficulties are those of the released data. Difficulty is the length of the
// targets, n_c = 6, 9, 14, with n_d = n_c div 3 and N_d = (paddles in all) div n_d. Which N_d the released
// easy and intermediate sets have is not known; here each has its own, for the same clutter.
#pragma once
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lra::pathfinder {

enum class Difficulty { kEasy, kIntermediate, kHard };

struct Parameters {
  int window = 0;               // W
  int padding = 0;              // p
  int scale = 2;                // s
  int seed_distance = 0;        // Δ
  int seed_frame = 0;           // where target 1 may not begin: 2Δ
  double marker_radius = 0;     // ρ, a multiple of 1/s
  int paddle_length = 0;        // ℓ
  double paddle_thickness = 0;  // τ, a multiple of 1/s
  std::vector<int> margins;     // m is drawn from these for each image
  double continuity = 0;        // κ
  int contour_length = 0;       // n_c
  int shortest_contour = 0;     // where set, n_c is drawn from here on for each image
  int distractor_length = 0;    // n_d
  int distractors = 0;          // N_d
  int snake_contrast = 100;     // c_s in per cent, so that images are sums and products of integers
  int paddle_contrast = 100;    // c_p in per cent
  int paddle_attempts = 3;      // draws of a seed, of a next paddle
  int distractor_attempts = 5;
};

inline Difficulty difficulty_named(std::string_view name) {
  if (name == "easy") return Difficulty::kEasy;
  if (name == "intermediate") return Difficulty::kIntermediate;
  if (name == "hard") return Difficulty::kHard;
  fail("pathfinder", "there is no difficulty '{}'. Known: easy, intermediate, hard.", name);
}

inline Parameters parameters_of(int resolution, Difficulty difficulty) {
  Parameters p;
  p.window = resolution;
  p.contour_length = difficulty == Difficulty::kEasy ? 6 : difficulty == Difficulty::kIntermediate ? 9 : 14;
  p.distractor_length = p.contour_length / 3;
  p.padding = 1;
  p.paddle_length = 5;
  p.continuity = 1.8;
  int distractor_paddles = 2;
  switch (resolution) {
    // Ours, for tests and the demo: targets of one paddle, which has both markers of label 1 in one place, up
    // to 2, 3 or 4, and hardly any clutter, so that a small model learns a part of it in a minute.
    case 16:
      p.shortest_contour = 1;
      p.contour_length = difficulty == Difficulty::kEasy           ? 2
                         : difficulty == Difficulty::kIntermediate ? 3
                                                                   : 4;
      p.distractor_length = 2;
      p.seed_distance = 6;
      p.seed_frame = 5;
      p.marker_radius = 1.5;
      p.paddle_length = 2;
      p.paddle_thickness = 0.5;
      p.margins = {1};
      p.continuity = 1.0;
      p.snake_contrast = 120;
      p.paddle_contrast = 100;
      distractor_paddles = 2;
      break;
    case 32:
      p.seed_distance = 7;
      p.marker_radius = 1.5;
      p.paddle_length = 2;
      p.paddle_thickness = 0.5;
      p.margins = {1};
      p.continuity = 1.0;
      p.snake_contrast = 200;
      p.paddle_contrast = 75;
      distractor_paddles = 20;
      break;
    case 64:
      p.seed_distance = 12;
      p.marker_radius = 2.5;
      p.paddle_thickness = 1;
      p.margins = {1};
      p.snake_contrast = 80;
      distractor_paddles = 22;
      break;
    case 128:
      p.seed_distance = 20;
      p.marker_radius = 3;
      p.paddle_thickness = 1.5;
      p.margins = {2, 3};
      p.snake_contrast = 90;
      distractor_paddles = 35;
      break;
    case 256:
      p.padding = 22;
      p.seed_distance = 27;
      p.marker_radius = 5;
      p.paddle_thickness = 2;
      p.margins = {3};
      distractor_paddles = 30;
      break;
    default:
      fail("pathfinder", "there are no images of {} x {} pixels. Known: 16, 32, 64, 128, 256.", resolution,
           resolution);
  }
  p.distractors = distractor_paddles / p.distractor_length;
  if (p.seed_frame == 0) p.seed_frame = 2 * p.seed_distance;
  return p;
}

}  // namespace lra::pathfinder
