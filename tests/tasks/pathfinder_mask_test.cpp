#include "tasks/pathfinder_mask.h"

#include <gtest/gtest.h>

#include "support/pathfinder_reference.h"

namespace lra::pathfinder {
namespace {

// A mask with a few paddles, and the same as a whole image.
class PathfinderMask : public testing::TestWithParam<std::pair<int, int>> {  // resolution, margin
 protected:
  PathfinderMask()
      : parameters(parameters_of(GetParam().first, Difficulty::kHard)),
        tables(parameters, GetParam().second),
        mask(parameters),
        image(parameters.window),
        rng(7, stream_id("test.mask")) {
    mask.set_margin(tables.margin);
    reference::set_frame(image, parameters.padding);
  }

  // Most of them near a border, where rasters are cut.
  Point random_pixel() {
    const auto window = static_cast<uint32_t>(parameters.window);
    const auto coordinate = [&] {
      const uint32_t near = rng.below(12);
      const uint32_t options[] = {near, window - 1 - near, rng.below(window)};
      return static_cast<int>(options[rng.below(3)]);
    };
    return {coordinate(), coordinate()};
  }
  const PaddleRaster& random_paddle() {
    return tables.paddles[rng.below(static_cast<uint32_t>(tables.paddles.size()))];
  }
  reference::Grid pasted(Point centre, const PaddleRaster& paddle) const {
    return reference::paste(draw_paddle(parameters, tables.margin, paddle.end).mask, centre,
                            parameters.window);
  }
  void add_random_paddles(int count) {
    for (int i = 0; i < count; ++i) {
      const Point centre = random_pixel();
      const PaddleRaster& paddle = random_paddle();
      mask.merge(centre, paddle.mask);
      image = reference::maximum(image, pasted(centre, paddle));
    }
  }
  testing::AssertionResult is_image() const {
    for (int y = 0; y < image.size; ++y) {
      for (int x = 0; x < image.size; ++x) {
        if (mask.at({y, x}) != image.at(y, x)) return testing::AssertionFailure() << y << ", " << x;
      }
    }
    return testing::AssertionSuccess();
  }

  Parameters parameters;
  Tables tables;
  Mask mask;
  reference::Grid image;
  Rng rng;
};

TEST_P(PathfinderMask, TakesInWhatLiesInTheWindow) {
  add_random_paddles(30);
  EXPECT_TRUE(is_image());
}

TEST_P(PathfinderMask, DilatesLikeTheWholeImage) {
  for (int round = 0; round < 4; ++round) {
    add_random_paddles(4);
    const reference::Grid dilated = reference::dilate(image, reference::disk(tables.margin));
    for (int y = 0; y < image.size; ++y) {
      for (int x = 0; x < image.size; ++x)
        ASSERT_EQ(mask.dilated({y, x}), dilated.at(y, x)) << y << ", " << x;
    }
  }
}

TEST_P(PathfinderMask, ClashesWhereTheWholeImagesAddUpTo1Point8) {
  int clashes = 0;
  constexpr int kPaddles = 400;
  for (int i = 0; i < kPaddles; ++i) {
    if (i % 20 == 0) add_random_paddles(1);
    const Point centre = random_pixel();
    const PaddleRaster& paddle = random_paddle();
    const reference::Grid added = pasted(centre, paddle);
    double largest = 0;
    for (size_t j = 0; j < added.values.size(); ++j)
      largest = std::max(largest, added.values[j] + image.values[j]);
    ASSERT_EQ(mask.clashes(centre, paddle.mask), largest >= 1.8 * 255) << centre.y << ", " << centre.x;
    clashes += largest >= 1.8 * 255;
  }
  EXPECT_GT(clashes, 0);  // both answers were asked for
  EXPECT_LT(clashes, kPaddles);
}

TEST_P(PathfinderMask, ForgetsWhatIsUndone) {
  add_random_paddles(10);
  const reference::Grid before = image;
  const size_t mark = mask.mark();
  add_random_paddles(10);
  EXPECT_FALSE(before.values == image.values);
  mask.undo_to(mark);
  image = before;
  EXPECT_TRUE(is_image());
}

// Else what a paddle leaves in the rim could decide over the next one.
TEST_P(PathfinderMask, LeavesTheRimEmptyWhenAllIsUndone) {
  add_random_paddles(10);
  mask.undo_to(0);
  for (int y = -paddle_radius(parameters, tables.margin); y < 0; ++y) {
    for (int x = 0; x < parameters.window; ++x) ASSERT_EQ(mask.at({y, x}), 0) << y << ", " << x;
  }
}

TEST_P(PathfinderMask, BlocksThePixelsThatAreNotFree) {
  add_random_paddles(10);
  FreePixels free(parameters.window);
  mask.block(free);
  const std::vector<Point> expected = reference::free_pixels(image);
  const std::vector<Point> kernel = {{0, 0}};
  ASSERT_EQ(free.find(kernel), expected.size());
  for (uint32_t i = 0; i < expected.size(); ++i) ASSERT_EQ(free.pixel(i), expected[i]);
}

INSTANTIATE_TEST_SUITE_P(All, PathfinderMask,
                         testing::Values(std::pair{32, 1}, std::pair{64, 1}, std::pair{128, 2},
                                         std::pair{128, 3}, std::pair{256, 3}));

}  // namespace
}  // namespace lra::pathfinder
