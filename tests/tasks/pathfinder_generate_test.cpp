#include "tasks/pathfinder_generate.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/threads.h"
#include "support/error_text.h"
#include "support/pathfinder_reference.h"

namespace lra::pathfinder {
namespace {

std::shared_ptr<const Blueprint> blueprint(int resolution, Difficulty difficulty) {
  return std::make_shared<const Blueprint>(parameters_of(resolution, difficulty));
}

struct Images {
  std::vector<Drawn> drawn;
  std::vector<uint8_t> pixels;
  size_t area = 0;

  std::span<const uint8_t> image(size_t i) const { return std::span(pixels).subspan(i * area, area); }
};

Images images(int resolution, Difficulty difficulty, size_t count, uint64_t seed = 0) {
  Generator generator(blueprint(resolution, difficulty));
  Images out;
  out.area = static_cast<size_t>(resolution * resolution);
  out.pixels.resize(count * out.area);
  for (size_t i = 0; i < count; ++i)
    out.drawn.push_back(generator.draw(seed, i, out.pixels.data() + i * out.area));
  return out;
}

void expect_the_definition(int resolution, Difficulty difficulty, size_t count) {
  const Images found = images(resolution, difficulty, count, 11);
  for (size_t i = 0; i < count; ++i) {
    const reference::Image expected = reference::draw(parameters_of(resolution, difficulty), 11, i);
    ASSERT_EQ(found.drawn[i].label, expected.drawn.label);
    ASSERT_EQ(found.drawn[i].margin, expected.drawn.margin);
    ASSERT_EQ(found.drawn[i].pairs, expected.drawn.pairs);
    ASSERT_EQ(found.drawn[i].distractors, expected.drawn.distractors);
    ASSERT_EQ(found.drawn[i].markers[0], expected.drawn.markers[0]);
    ASSERT_EQ(found.drawn[i].markers[1], expected.drawn.markers[1]);
    const auto pixels = found.image(i);
    ASSERT_TRUE(std::equal(pixels.begin(), pixels.end(), expected.pixels.begin())) << "image " << i;
  }
}

TEST(PathfinderGenerator, DrawsWhatTheDefinitionDrawsAt32) {
  expect_the_definition(32, Difficulty::kEasy, 30);
  expect_the_definition(32, Difficulty::kIntermediate, 20);
  expect_the_definition(32, Difficulty::kHard, 10);
}
TEST(PathfinderGenerator, DrawsWhatTheDefinitionDrawsAt64) {
  expect_the_definition(64, Difficulty::kEasy, 3);
}
TEST(PathfinderGenerator, DrawsWhatTheDefinitionDrawsAt128) {
  expect_the_definition(128, Difficulty::kEasy, 2);
}
TEST(PathfinderGenerator, DrawsWhatTheDefinitionDrawsAt256) {
  expect_the_definition(256, Difficulty::kEasy, 1);
}

// Fixed when the generator was written: another value means other data under the same version. SHA-256 of
// five images and labels of seed 3, in which nothing but exactly rounded arithmetic takes part.
TEST(PathfinderGenerator, GivesTheBitsOfVersionOne) {
  const std::map<std::pair<int, Difficulty>, std::string> expected = {
      {{32, Difficulty::kEasy}, "dc8caf6aa4e5359db5a806f26fd60cdbcc8322fd0b9482f3d948fdf0198738ab"},
      {{32, Difficulty::kIntermediate}, "acd69780dc64c7848b9581b3a7b4b390faef53bd50aae49d6e1bfff42b2192d2"},
      {{32, Difficulty::kHard}, "d4aa29968f3c27c7d6c73a264fbac045605ad419aeddbc322d76ab26cc3f5a2f"},
      {{64, Difficulty::kEasy}, "05358a14d1fed20c0588b42f4980d46db7779fba6116dd35c84142c68fc1fa27"},
      {{64, Difficulty::kIntermediate}, "fe2448b4ff9db9203a924f182f67e116ffbad5b335a3ce5cd768330851e06c3d"},
      {{64, Difficulty::kHard}, "2f201371bee5916f81d4c350b95d9aa72a4eca9da420a21fdeabeaa27a94c9b4"},
      {{128, Difficulty::kEasy}, "e3b06565287ec9352d474a3ddc63a32da4a1f6f8b1a4ebc7719c0f5b2fbd365e"},
      {{128, Difficulty::kIntermediate}, "7bd3688e3952bd54c3efa24bc796daefc207cc3c56d5d42ac0ada8ee768fcfbd"},
      {{128, Difficulty::kHard}, "90739827693f06f1b9a08a90a3ac31eacef674c40490a4392b5ac74b21d56374"},
      {{256, Difficulty::kEasy}, "7beb832c0b34a0e6210f7763e42bd6f0d6023a4327e73bdcc9ea6a5fc17b33c2"},
      {{256, Difficulty::kIntermediate}, "e61ee93d9f0dc38e8452546c6ec2c985dfe0f6bf34649f86bcb66342969a3079"},
      {{256, Difficulty::kHard}, "3b1ac2300aa682a795b81f702351b1abb4373c57ada2f11217375337201131c8"},
  };
  for (const auto& [key, golden] : expected) {
    const Images found = images(key.first, key.second, 5, 3);
    Sha256 hash;
    hash.update(found.pixels.data(), found.pixels.size());
    for (const Drawn& drawn : found.drawn) hash.update(&drawn.label, sizeof(drawn.label));
    EXPECT_EQ(hash.hex(), golden) << key.first << ", difficulty " << static_cast<int>(key.second);
  }
}

TEST(PathfinderGenerator, GivesTheSameBitsForAnyNumberOfThreads) {
  constexpr int64_t kBlocks = 12, kPerBlock = 5;
  const auto shared = blueprint(32, Difficulty::kHard);
  std::set<std::vector<uint8_t>> seen;
  for (const int threads : {1, 2}) {
    set_thread_count(threads);
    std::vector<uint8_t> pixels(kBlocks * kPerBlock * 32 * 32);
    parallel_items(kBlocks, [&](int64_t block) {
      Generator generator(shared);
      for (int64_t i = block * kPerBlock; i < (block + 1) * kPerBlock; ++i)
        generator.draw(0, static_cast<uint64_t>(i), pixels.data() + i * 32 * 32);
    });
    seen.insert(pixels);
  }
  set_thread_count(0);
  EXPECT_EQ(seen.size(), 1u);
}

TEST(PathfinderGenerator, DrawsAnImageWithoutThoseBeforeIt) {
  const Images found = images(128, Difficulty::kEasy, 4);
  Generator generator(blueprint(128, Difficulty::kEasy));
  std::vector<uint8_t> alone(found.area);
  generator.draw(0, 3, alone.data());
  const auto together = found.image(3);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin()));
}

TEST(PathfinderGenerator, DrawsOtherImagesForAnotherSeed) {
  EXPECT_NE(images(32, Difficulty::kEasy, 1, 0).pixels, images(32, Difficulty::kEasy, 1, 1).pixels);
}

TEST(PathfinderGenerator, DrawsNoImageTwice) {
  const Images found = images(32, Difficulty::kEasy, 1000);
  std::set<std::vector<uint8_t>> seen;
  for (size_t i = 0; i < 1000; ++i) seen.emplace(found.image(i).begin(), found.image(i).end());
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(PathfinderGenerator, StretchesEveryImageToAllOfTheRange) {
  for (const int resolution : {32, 64, 128, 256}) {
    const Images found = images(resolution, Difficulty::kEasy, 10);
    for (size_t i = 0; i < found.drawn.size(); ++i) {
      const auto [low, high] = std::minmax_element(found.image(i).begin(), found.image(i).end());
      ASSERT_EQ(*low, 0) << resolution;
      ASSERT_EQ(*high, 255) << resolution;
    }
  }
}

// A marker is 1 within its radius, but for the ripples of the down-sampling; nothing painted over it is
// darker.
TEST(PathfinderGenerator, PutsTheMarkersWhereItSays) {
  for (const int resolution : {64, 128, 256}) {
    const Images found = images(resolution, Difficulty::kEasy, 20);
    for (size_t i = 0; i < found.drawn.size(); ++i) {
      for (const Point marker : found.drawn[i].markers) {
        for (const Point step : {Point{0, 0}, Point{0, 1}, Point{1, 0}, Point{0, -1}, Point{-1, 0}}) {
          const Point at = marker + step;
          if (std::min(at.y, at.x) < 0 || std::max(at.y, at.x) >= resolution) continue;
          ASSERT_GE(found.image(i)[static_cast<size_t>(at.y * resolution + at.x)], 240) << resolution;
        }
      }
    }
  }
}

TEST(PathfinderGenerator, DrawsEveryMarginOfTheList) {
  std::map<int, int> margins;
  for (const Drawn& drawn : images(128, Difficulty::kEasy, 200).drawn) ++margins[drawn.margin];
  ASSERT_EQ(margins.size(), 2u);
  EXPECT_NEAR(margins[2], 100, 36);  // five standard deviations
}

TEST(PathfinderGenerator, StopsWhereNoPairFits) {
  Parameters parameters = parameters_of(32, Difficulty::kEasy);
  parameters.paddle_attempts = 0;
  Generator generator(std::make_shared<const Blueprint>(parameters));
  std::vector<uint8_t> pixels(32 * 32);
  EXPECT_TRUE(
      says(error_text([&] { generator.draw(0, 0, pixels.data()); }), "no pair of contours of 6 paddles"));
}

TEST(PathfinderGenerator, RefusesAWindowWithoutFrame) {
  Parameters parameters = parameters_of(32, Difficulty::kEasy);
  parameters.padding = 0;
  EXPECT_TRUE(says(error_text([&] { Blueprint{parameters}; }), "padding is 0"));
}

// 4 000 images at 32 x 32, drawn once for the tests below.
const Images& many(Difficulty difficulty) {
  static std::map<Difficulty, Images> drawn;
  if (!drawn.contains(difficulty)) drawn[difficulty] = images(32, difficulty, 4'000);
  return drawn[difficulty];
}

// What a re-implementation of the published generator shows: distractors placed, share of pixels that are not
// 0, mean and standard deviation of the pixels.
struct Expected {
  Difficulty difficulty;
  double distractors, nonzero, mean, deviation;
};
class PathfinderDistribution : public testing::TestWithParam<Expected> {};

TEST_P(PathfinderDistribution, IsThatOfThePublishedGenerator) {
  const Images& found = many(GetParam().difficulty);
  double distractors = 0, nonzero = 0, sum = 0, squares = 0;
  for (const Drawn& drawn : found.drawn) distractors += drawn.distractors;
  for (const uint8_t pixel : found.pixels) {
    nonzero += pixel != 0;
    sum += pixel;
    squares += pixel * pixel;
  }
  const auto n = static_cast<double>(found.pixels.size()), mean = sum / n;
  EXPECT_NEAR(distractors / static_cast<double>(found.drawn.size()), GetParam().distractors, 0.06);
  EXPECT_NEAR(100 * nonzero / n, GetParam().nonzero, 1.0);
  EXPECT_NEAR(mean, GetParam().mean, 0.5);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean), GetParam().deviation, 0.5);
}

TEST_P(PathfinderDistribution, BalancesTheLabels) {
  const Images& found = many(GetParam().difficulty);
  const auto n = static_cast<double>(found.drawn.size());
  double ones = 0;
  for (const Drawn& drawn : found.drawn) ones += drawn.label;
  EXPECT_NEAR(ones, n / 2, 5 * std::sqrt(n / 4));
}

INSTANTIATE_TEST_SUITE_P(At32, PathfinderDistribution,
                         testing::Values(Expected{Difficulty::kEasy, 10.0, 34.8, 20.7, 52.6},
                                         Expected{Difficulty::kIntermediate, 6.0, 37.5, 22.5, 53.9},
                                         Expected{Difficulty::kHard, 4.7, 45.6, 28.0, 58.1}));

// 13.3 (label 1) and 12.9 (label 0): the distance of the markers must not give the label away.
TEST(PathfinderGenerator, PutsTheMarkersAsFarApartForBothLabels) {
  double distance[2] = {}, count[2] = {};
  for (const Drawn& drawn : many(Difficulty::kHard).drawn) {
    const Point a = drawn.markers[0], b = drawn.markers[1];
    distance[drawn.label] += std::hypot(a.y - b.y, a.x - b.x);
    ++count[drawn.label];
  }
  EXPECT_NEAR(distance[1] / count[1], 13.3, 0.4);
  EXPECT_NEAR(distance[0] / count[0], 12.9, 0.4);
}

}  // namespace
}  // namespace lra::pathfinder
