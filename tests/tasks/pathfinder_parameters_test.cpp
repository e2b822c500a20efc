#include "tasks/pathfinder_parameters.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lra::pathfinder {
namespace {

// Distractors times their paddles as the data was described: 20, 22, 35, 30 paddles divided by n_d, rounded
// down.
TEST(PathfinderParameters, DivideTheClutterByTheDistractorsLength) {
  const int resolutions[] = {32, 64, 128, 256};
  const int expected[4][3] = {{10, 6, 5}, {11, 7, 5}, {17, 11, 8}, {15, 10, 7}};
  for (size_t i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j)
      EXPECT_EQ(parameters_of(resolutions[i], Difficulty{j}).distractors, expected[i][j]) << resolutions[i];
  }
}

TEST(PathfinderParameters, LengthenTheContoursWithTheDifficulty) {
  EXPECT_EQ(parameters_of(32, difficulty_named("easy")).contour_length, 6);
  EXPECT_EQ(parameters_of(32, difficulty_named("intermediate")).contour_length, 9);
  EXPECT_EQ(parameters_of(32, difficulty_named("hard")).contour_length, 14);
}

TEST(PathfinderParameters, RefuseAnUnknownResolution) {
  EXPECT_TRUE(says(error_text([] { parameters_of(48, Difficulty::kHard); }), "no images of 48 x 48 pixels"));
}

TEST(PathfinderParameters, RefuseAnUnknownDifficulty) {
  EXPECT_TRUE(says(error_text([] { difficulty_named("extreme"); }), "no difficulty 'extreme'"));
}

}  // namespace
}  // namespace lra::pathfinder
