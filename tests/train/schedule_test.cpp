#include "train/schedule.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

// Check values of the arena's schedules, from its configurations.
TEST(ScheduleTest, ListOpsRisesToItsPeakAndFallsWithTheRoot) {
  const Schedule s{"rsqrt", 0.05, 1000, 5000};
  EXPECT_EQ(s.at(0), 0.0);
  EXPECT_NEAR(s.at(1000), 1.581e-3, 1e-6);
  EXPECT_NEAR(s.at(5000), 7.07e-4, 1e-6);
  EXPECT_NEAR(s.at(10000), 5.0e-4, 1e-9);
}
TEST(ScheduleTest, TextPeaksAtEightThousand) {
  const Schedule s{"rsqrt", 0.05, 8000, 20000};
  EXPECT_NEAR(s.at(8000), 5.59e-4, 1e-6);
  EXPECT_NEAR(s.at(20000), 3.54e-4, 1e-6);
}
TEST(ScheduleTest, RetrievalIsStillRisingAtItsEnd) {
  EXPECT_NEAR((Schedule{"rsqrt", 0.05, 8000, 5000}.at(5000)), 3.49e-4, 1e-6);
  EXPECT_NEAR((Schedule{"rsqrt", 0.5, 8000, 5000}.at(5000)), 3.49e-3, 1e-5);
}
TEST(ScheduleTest, CosinePeaksAfterOneEpochAndEndsNearZero) {
  const Schedule cifar{"cosine", 5e-4, 175, 35000}, pathfinder{"cosine", 1e-3, 312, 62400};
  EXPECT_NEAR(cifar.at(175), 5e-4, 1e-12);
  EXPECT_NEAR(pathfinder.at(312), 1e-3, 1e-12);
  EXPECT_LT(cifar.at(34999), 1e-7);
}
}  // namespace
}  // namespace lra
