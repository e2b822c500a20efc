#include "tasks/pathfinder_angle.h"

#include <cmath>

#include <gtest/gtest.h>

namespace lra::pathfinder {
namespace {

TEST(PathfinderAngle, GivesTheSinesAndCosinesOfTheLibrary) {
  for (int i = -4000; i <= 4000; ++i) {
    const double radians = i / 400.0;
    ASSERT_NEAR(direction(radians).sin, std::sin(radians), 1e-14) << radians;
    ASSERT_NEAR(direction(radians).cos, std::cos(radians), 1e-14) << radians;
  }
}

TEST(PathfinderAngle, GivesTheSinesAndCosinesOfWholeDegrees) {
  for (int degrees = -180; degrees < 360; ++degrees) {
    ASSERT_NEAR(direction_of_degrees(degrees).sin, std::sin(degrees * kPi / 180), 1e-15) << degrees;
    ASSERT_NEAR(direction_of_degrees(degrees).cos, std::cos(degrees * kPi / 180), 1e-15) << degrees;
  }
}

TEST(PathfinderAngle, IsExactAtQuarterTurns) {
  for (const auto& [degrees, sin, cos] : {std::tuple(-180, 0.0, -1.0), std::tuple(-90, -1.0, 0.0),
                                          std::tuple(0, 0.0, 1.0), std::tuple(90, 1.0, 0.0)}) {
    EXPECT_EQ(direction_of_degrees(degrees).sin, sin) << degrees;
    EXPECT_EQ(direction_of_degrees(degrees).cos, cos) << degrees;
  }
}

TEST(PathfinderAngle, GivesTheAnglesOfTheLibrary) {
  for (int y = -12; y <= 12; ++y) {
    for (int x = -12; x <= 12; ++x) {
      if (y == 0 && x == 0) continue;
      ASSERT_NEAR(angle_of(y, x), std::atan2(y, x), 1e-15) << y << ", " << x;
    }
  }
}

}  // namespace
}  // namespace lra::pathfinder
