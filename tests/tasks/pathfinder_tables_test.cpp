#include "tasks/pathfinder_tables.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/pathfinder_reference.h"

namespace lra::pathfinder {
namespace {

class PathfinderTables : public testing::TestWithParam<std::pair<int, int>> {  // resolution, margin
 protected:
  PathfinderTables()
      : parameters(parameters_of(GetParam().first, Difficulty::kHard)),
        tables(parameters, GetParam().second),
        reach(parameters.paddle_length + tables.margin) {}

  const PaddleRaster& paddle(int index) const { return tables.paddles[static_cast<size_t>(index)]; }
  double radians(size_t angle) const {
    if (angle < kDegrees) return (static_cast<int>(angle) - 180) * kPi / 180;
    const Point offset = tables.candidates[angle - kDegrees].offset;
    return std::atan2(offset.y, offset.x);
  }

  Parameters parameters;
  Tables tables;
  int reach;
};

Canvas whole(const Raster& raster, int size) {
  Canvas canvas(size);
  for (int y = 0; y < raster.rows; ++y) {
    for (int x = 0; x < kRasterWidth; ++x) {
      const uint8_t value = raster.values[static_cast<size_t>(y)][static_cast<size_t>(x)];
      if (value != 0) canvas.at(size / 2 + raster.top + y, size / 2 + raster.left + x) = value;
    }
  }
  return canvas;
}

TEST_P(PathfinderTables, KeepTheRastersOfEveryAngle) {
  for (size_t angle = 0; angle < tables.angles.size(); ++angle) {
    const PaddleRaster& kept = paddle(tables.angles[angle].paddle);
    const Paddle drawn = reference::paddle(parameters, tables.margin, radians(angle));
    ASSERT_EQ(whole(kept.line, drawn.line.size).cells, drawn.line.cells) << angle;
    ASSERT_EQ(whole(kept.mask, drawn.mask.size).cells, drawn.mask.cells) << angle;
  }
}

TEST_P(PathfinderTables, DrawACandidatesPaddleBackToThePivot) {
  for (size_t i = 0; i < tables.candidates.size(); ++i) {
    const Point offset = tables.candidates[i].offset;
    const Paddle drawn = reference::paddle(parameters, tables.margin, std::atan2(-offset.y, -offset.x));
    const PaddleRaster& kept = paddle(tables.candidates[i].paddle);
    ASSERT_EQ(whole(kept.line, drawn.line.size).cells, drawn.line.cells) << i;
  }
}

TEST_P(PathfinderTables, MoveLikeTheDefinition) {
  const Point from{100, 200};
  for (size_t i = 0; i < tables.angles.size(); ++i) {
    const Angle& angle = tables.angles[i];
    const Point head = reference::moved(from, radians(i), parameters.paddle_length);
    ASSERT_EQ(from + angle.head, head) << i;
    ASSERT_EQ(from + angle.pivot, reference::moved(head, radians(i) + kPi, reach)) << i;
    ASSERT_EQ(from + angle.step, reference::moved(from, radians(i), reach + tables.margin)) << i;
  }
}

// At a pivot in the middle, where no candidate is outside, and in a free mask.
TEST_P(PathfinderTables, WeighTheCandidatesLikeTheDefinition) {
  const Point pivot{parameters.window / 2, parameters.window / 2};
  const reference::Grid nothing(parameters.window);
  for (size_t i = 0; i < tables.angles.size(); ++i) {
    const auto tips = reference::tips(parameters, tables.margin, pivot, radians(i), nothing);
    ASSERT_EQ(tips.size(), tables.candidates.size());
    std::vector<double> weights(tips.size(), 0.0);
    for (const Weighted& next : tables.angles[i].next)
      weights[static_cast<size_t>(next.candidate)] = next.weight;
    for (size_t j = 0; j < tips.size(); ++j) {
      ASSERT_EQ(tips[j].at, pivot + tables.candidates[j].offset);
      ASSERT_NEAR(weights[j], tips[j].weight, 1e-14) << i << ", " << j;
    }
  }
}

TEST_P(PathfinderTables, KeepTheSeedKernels) {
  for (size_t i = 0; i < kDegrees; ++i) {
    const reference::Grid kernel = reference::seed_kernel(parameters, tables.margin, radians(i));
    std::vector<Point> cells;
    for (int y = 0; y < kernel.size; ++y) {
      for (int x = 0; x < kernel.size; ++x) {
        if (kernel.at(y, x) == 255) cells.push_back({y - reach, x - reach});
      }
    }
    ASSERT_EQ(paddle(tables.angles[i].paddle).seed_kernel, cells) << i;
  }
}

TEST_P(PathfinderTables, KeepWhereTheFirstTargetMayStart) {
  reference::Grid framed(parameters.window);
  reference::set_frame(framed, std::max(parameters.padding, parameters.seed_frame));
  for (size_t i = 0; i < kDegrees; i += 45) {
    const reference::Grid kernel = reference::seed_kernel(parameters, tables.margin, radians(i));
    const PaddleRaster& kept = paddle(tables.angles[i].paddle);
    std::vector<Point> found;
    for (uint32_t j = 0; j < kept.first_seed_count; ++j) found.push_back(pixel_in(kept.first_seeds, j));
    ASSERT_EQ(found, reference::free_pixels(reference::dilate(framed, kernel))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PathfinderTables,
                         testing::Values(std::pair{32, 1}, std::pair{64, 1}, std::pair{128, 2},
                                         std::pair{128, 3}, std::pair{256, 3}));

TEST(PathfinderTablesLimits, RefuseAMarginWhoseDiskIsTooWide) {
  const Parameters parameters = parameters_of(256, Difficulty::kHard);
  EXPECT_TRUE(says(error_text([&] { Tables(parameters, 4); }), "margins are 1 to 3"));
}

}  // namespace
}  // namespace lra::pathfinder
