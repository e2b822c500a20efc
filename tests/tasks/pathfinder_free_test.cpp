#include "tasks/pathfinder_free.h"

#include <gtest/gtest.h>

#include "support/pathfinder_reference.h"

namespace lra::pathfinder {
namespace {

struct Case {
  reference::Grid mask, kernel;
  std::vector<Point> cells;  // of the kernel, from its anchor
};

// A sparse mask with values on both sides of the bound, and a kernel that need not contain its anchor.
Case random_case(int window, uint64_t seed) {
  Rng rng(seed, stream_id("test.free"));
  const int reach = 1 + static_cast<int>(rng.below(8));
  Case c{reference::Grid(window), reference::Grid(2 * reach + 1), {}};
  for (double& value : c.mask.values) value = rng.below(100) < 4 ? rng.below(256) : rng.below(kFree + 1);
  for (int y = -reach; y <= reach; ++y) {
    for (int x = -reach; x <= reach; ++x) {
      if (rng.below(6) != 0) continue;
      c.kernel.at(y + reach, x + reach) = 255;
      c.cells.push_back({y, x});
    }
  }
  return c;
}

void block(FreePixels& free, const reference::Grid& mask) {
  free.unblock();
  for (int y = 0; y < mask.size; ++y) {
    std::vector<uint8_t> row;
    for (int x = 0; x < mask.size; ++x) row.push_back(static_cast<uint8_t>(mask.at(y, x)));
    free.block_row(y, row.data());
  }
}

TEST(PathfinderFree, FindsTheFreePixelsOfTheFullDilation) {
  for (const int window : {32, 64, 100, 128, 256}) {
    FreePixels free(window);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const Case c = random_case(window, seed);
      block(free, c.mask);
      std::vector<Point> found;
      const uint32_t count = free.find(c.cells);
      for (uint32_t i = 0; i < count; ++i) found.push_back(free.pixel(i));
      ASSERT_EQ(found, reference::free_pixels(reference::dilate(c.mask, c.kernel))) << window << ", " << seed;
    }
  }
}

TEST(PathfinderFree, KeepsTheSamePixelsInRuns) {
  FreePixels free(128);
  const Case c = random_case(128, 1);
  block(free, c.mask);
  const uint32_t count = free.find(c.cells);
  ASSERT_GT(count, 0u);
  const auto runs = free.runs();
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(pixel_in(runs, i), free.pixel(i)) << i;
}

TEST(PathfinderFree, BlocksTheFrameAndNothingElse) {
  for (const int width : {1, 14, 40}) {
    reference::Grid mask(128);
    reference::set_frame(mask, width);
    FreePixels free(128);
    free.block_frame(width);
    EXPECT_EQ(free.unblocked(), reference::free_pixels(mask).size()) << width;
  }
}

}  // namespace
}  // namespace lra::pathfinder
