#include "tasks/pathfinder_raster.h"

#include <gtest/gtest.h>

#include "base/sha256.h"

namespace lra::pathfinder {
namespace {

// Line and mask of the paddles at -180 … 179 degrees, drawn and resized by Pillow 13.0 (ImageDraw.line,
// Image.resize with LANCZOS), the dilation by numpy.
TEST(PathfinderRaster, DrawsThePaddlesOfThePythonImagingLibrary) {
  struct Golden {
    int resolution, margin;
    const char* sha256;
  };
  for (const Golden& golden :
       {Golden{32, 1, "4d4e3c0f542d5f2d358bd20d6f478e26b7aa697779f6138075bbed96fc3f9a55"},
        Golden{64, 1, "21e0e69aff83611f383526d89f51a6b3034624dd9c2f2799100eacfc957f7bcf"},
        Golden{128, 2, "9a7ec3f1af5a0a2f86a626aabbf1851c39b4d90e1390f5a9ebb2a9601cb0a9e3"},
        Golden{128, 3, "b99b1bb6ee6ffb197235acd2c8b2761e55f094ccc0b05a0c09b885de1a058b60"},
        Golden{256, 3, "9f42e19f3ddd4569f3f567f684fe49a1e2c80a3989a0b8b321322e6be32a71f2"}}) {
    const Parameters parameters = parameters_of(golden.resolution, Difficulty::kHard);
    Sha256 hash;
    for (int degrees = -180; degrees < 180; ++degrees) {
      const Point end =
          displacement(direction_of_degrees(degrees), parameters.paddle_length * parameters.scale);
      const Paddle paddle = draw_paddle(parameters, golden.margin, end);
      hash.update(paddle.line.cells.data(), paddle.line.cells.size());
      hash.update(paddle.mask.cells.data(), paddle.mask.cells.size());
    }
    EXPECT_EQ(hash.hex(), golden.sha256) << golden.resolution << ", margin " << golden.margin;
  }
}

// The same for disks of the markers' radius, in corners and in the middle.
TEST(PathfinderRaster, DrawsTheMarkersOfThePythonImagingLibrary) {
  struct Golden {
    int resolution;
    const char* sha256;
  };
  for (const Golden& golden :
       {Golden{32, "2b5ad7a00c19ff02c2f0b27418c985e6680e512944d8cd120054d22d7e5ddd49"},
        Golden{64, "6b6cc32f2506b5d5bb671c2ec12b9c81bf1f96dc68889380aa96c7a7b6d06e78"},
        Golden{128, "08901b5286636f44d92001340dcbdc96177554e11df4357d2942272d72d25bb2"},
        Golden{256, "c1c27a63e367953cbd9ab82001259945ee95c8716bcee0a9a32f9599f0007312"}}) {
    const int w = golden.resolution;
    MarkerRaster marker(parameters_of(w, Difficulty::kHard));
    Sha256 hash;
    for (const Point centre :
         {Point{0, 0}, Point{1, 3}, Point{w / 2, w / 2 + 1}, Point{w - 2, w - 1}, Point{5, w - 3}}) {
      Canvas image(w);
      marker.draw(centre, [&](Point p, uint8_t value) { image.at(p.y, p.x) = value; });
      hash.update(image.cells.data(), image.cells.size());
    }
    EXPECT_EQ(hash.hex(), golden.sha256) << golden.resolution;
  }
}

TEST(PathfinderRaster, RoundsDisplacementsUp) {
  EXPECT_EQ(displacement({0.25, -0.25}, 2), (Point{1, 0}));
  EXPECT_EQ(displacement({1, -1}, 2), (Point{2, -2}));
  EXPECT_EQ(displacement({0.5 + 1e-16, 0}, 4), (Point{2, 0}));  // two, but for its rounding
}

}  // namespace
}  // namespace lra::pathfinder
