#include <fstream>

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/program.h"
#include "tasks/pathfinder.h"
#include "tasks/pathfinder_generate.h"

namespace lra::pathfinder {
namespace {

Options tiny() {
  Options options;
  options.side = 16;
  options.difficulty = "easy";
  return options;
}

std::string bits(const MemorySink& made) {
  Sha256 hash;
  for (const Examples& split : made.splits) {
    hash.update(split.tokens.data(), split.tokens.size() * sizeof(uint16_t));
    hash.update(split.labels.data(), split.labels.size() * sizeof(int64_t));
  }
  return hash.hex();
}

class PathfinderMake : public testing::Test {
 protected:
  PathfinderMake() { set_log_level(LogLevel::kQuiet); }
  static std::string made_bits(const Options& options = tiny()) {
    MemorySink made;
    make_images(options, kCounts, 3, made);
    return bits(made);
  }
  static constexpr SplitCounts kCounts = {1500, 300, 200};
};

TEST_F(PathfinderMake, IsTheGeneratorsImagesInOrder) {
  MemorySink made;
  make_images(tiny(), kCounts, 3, made);
  EXPECT_EQ(made.splits[0].size(), 1500);
  EXPECT_EQ(made.splits[1].size(), 300);
  EXPECT_EQ(made.splits[2].size(), 200);
  Generator generator(std::make_shared<const Blueprint>(tiny().parameters()));
  std::vector<uint8_t> pixels(256);
  const Drawn drawn = generator.draw(3, 0, pixels.data());
  EXPECT_EQ(made.splits[0].labels[0], drawn.label);
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), made.splits[0].tokens.begin()));
}

TEST_F(PathfinderMake, GivesTheSameBitsOnOneAndManyThreads) {
  set_thread_count(1);
  const std::string one = made_bits();
  set_thread_count(5);
  const std::string many = made_bits();
  set_thread_count(0);
  EXPECT_EQ(one, many);
}

// Cut anywhere, or with a damaged record: what is right is kept, the rest is drawn again.
TEST_F(PathfinderMake, GoesOnFromWhateverAKillLeftToTheSameBits) {
  const std::string whole = made_bits();
  constexpr size_t kRecord = 16 + 256;
  for (const size_t left : {size_t{0}, kRecord - 1, 700 * kRecord, 700 * kRecord + 100, 2047 * kRecord + 5}) {
    MemorySink again;
    make_images(tiny(), kCounts, 3, again);
    const fs::path file = again.lasting_scratch() / "images.bin";
    ASSERT_GT(fs::file_size(file), left);
    fs::resize_file(file, left);
    for (Examples& split : again.splits) split = Examples();
    make_images(tiny(), kCounts, 3, again);
    EXPECT_EQ(bits(again), whole) << left;
  }
}

TEST_F(PathfinderMake, DrawsAgainAfterADamagedRecord) {
  const std::string whole = made_bits();
  MemorySink again;
  make_images(tiny(), kCounts, 3, again);
  {
    std::fstream file(again.lasting_scratch() / "images.bin",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(272 * 400 + 50);
    file.put('x');
  }
  for (Examples& split : again.splits) split = Examples();
  make_images(tiny(), kCounts, 3, again);
  EXPECT_EQ(bits(again), whole);
}

TEST_F(PathfinderMake, UsesOnlyTheLevelsAskedFor) {
  Options options = tiny();
  options.levels = 4;
  MemorySink made;
  make_images(options, {50, 5, 5}, 0, made);
  for (const uint16_t value : made.splits[0].tokens) ASSERT_EQ(value % 85, 0);
}

TEST_F(PathfinderMake, RefusesASideItDoesNotKnow) {
  Options options = tiny();
  options.side = 33;
  EXPECT_TRUE(says(error_text([&] { made_bits(options); }), "33 x 33"));
}

// The real program, killed as soon as it has written something, and started again.
TEST_F(PathfinderMake, SurvivesAKillOfTheRealProgram) {
  const TempDir killed, undisturbed;
  const auto arguments = [](const TempDir& folder) {
    return std::vector<std::string>{LRA_PROGRAM, "data",
                                    "make",      "pathfinder",
                                    "--count",   "6000,100,100",
                                    "--data",    folder.path().string(),
                                    "--variant", "x",
                                    "--json"};
  };
  const fs::path images = killed / "pathfinder/.x.resume/images.bin",
                 done = killed / "pathfinder/x/manifest.json";
  Process process(arguments(killed), killed.path());
  std::error_code code;
  while (!fs::exists(done, code) && (!fs::exists(images, code) || fs::file_size(images, code) == 0))
    usleep(1000);
  process.signal(SIGKILL);
  process.wait();
  const Outcome resumed = Process(arguments(killed), killed.path()).wait();
  const Outcome whole = Process(arguments(undisturbed), undisturbed.path()).wait();
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(Json::parse(resumed.out).at("splits"), Json::parse(whole.out).at("splits"));
  EXPECT_FALSE(fs::exists(images));
}

TEST(PathfinderMarkers, AreFoundWhereTheGeneratorPutThem) {
  for (const int side : {32, 128}) {
    Generator generator(std::make_shared<const Blueprint>(parameters_of(side, Difficulty::kEasy)));
    std::vector<uint8_t> pixels(static_cast<size_t>(side * side));
    int found = 0, images = 100;
    for (int i = 0; i < images; ++i) {
      const Drawn drawn = generator.draw(0, static_cast<uint64_t>(i), pixels.data());
      const MarkerPair pair = find_markers(pixels, side);
      const double dy = drawn.markers[0].y - drawn.markers[1].y, dx = drawn.markers[0].x - drawn.markers[1].x;
      found += std::abs(pair.distance() - std::sqrt(dy * dy + dx * dx)) < 2 ? 1 : 0;
    }
    EXPECT_GE(found, 95) << side;
  }
}

TEST(PathfinderTask, BlackPixelsLeftOutAreStillInThePicture) {
  const TempDir root;
  const Task& task = find_task("pathfinder");
  MakeRequest request;
  request.size = "tiny", request.counts = SplitCounts{50, 10, 10};
  const Dataset whole = make_data(task, root.path(), request).open("train");
  request.options = {"zero_is_pad=true"};
  const DataFolder folder = make_data(task, root.path(), request);
  const Dataset holed = folder.open("train");
  EXPECT_NE(holed.info().sha256, whole.info().sha256);
  EXPECT_LT(holed.total_tokens(), whole.total_tokens());
  EXPECT_EQ(holed.info().pad_id, 0);
  for (int64_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(task.picture(holed, i)->pixels, task.picture(whole, i)->pixels) << i;
  }
  EXPECT_NO_THROW(verify_data(task, folder));
}

}  // namespace
}  // namespace lra::pathfinder
