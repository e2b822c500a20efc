// Pathfinder: are two round markers on the same snake? Gray images, read pixel by pixel; Path-X is the same
// with 128 pixels a side. This header is what the files of the task share, beside the generator's own
// (pathfinder_generate.h):
//
//   pathfinder_make    images of the generator as a data set, resumable
//   pathfinder_import  the published PNG folders
//   pathfinder_stats   where the markers are, and what their distance is worth
//   pathfinder         the tasks themselves
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tasks/pathfinder_parameters.h"
#include "tasks/task.h"

namespace lra::pathfinder {

struct Options : TaskOptions {
  int64_t side = 32, levels = 256;
  std::string difficulty = "hard";
  bool drop_remainder = false, zero_is_pad = false;

  void visit(Fields& f) override {
    f.integer("side", side, 16, 256, "pixels of a side: 32, 64, 128 or 256; 16 is for tests and the demo");
    f.choice("difficulty", difficulty, {"easy", "intermediate", "hard"},
             "length of the two targets: 6, 9 or 14 paddles (curv_baseline, curv_contour_length_9 and _14)");
    f.integer("levels", levels, 2, 256, "gray values that made images use; the benchmark has all 256");
    f.flag("drop_remainder", drop_remainder,
           "cut val and test to whole batches of 512 images, as the released code evaluates them");
    f.flag(
        "zero_is_pad", zero_is_pad,
        "leave black pixels out of the row, as the released code masks them; the others keep their places");
  }
  Parameters parameters() const {
    return parameters_of(static_cast<int>(side), difficulty_named(difficulty));
  }
};
inline constexpr int64_t kBatch = 512;  // of the released code

// Image i is a pure function of (parameters, seed, i); images are taken in order into train, then val, then
// test, and repeats are left out. Killed and started again, it goes on after the last image that was written.
Json make_images(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& out);

// The release, packed or not, or one of its folders: pathfinderSIDE/DIFFICULTY/{imgs,metadata}.
Json import_published(const Options& options, const fs::path& from, DataSink& out);

// Centres of the two markers of an image, by what shows: the two brightest filled disks.
struct MarkerPair {
  int64_t y[2] = {}, x[2] = {};
  double distance() const;
};
MarkerPair find_markers(std::span<const uint8_t> image, int64_t side);

Stats image_stats(const std::vector<const Dataset*>& splits, const Json& notes);
// The best threshold on the markers' distance.
double accuracy_of_distance(const Dataset& train, const Dataset& test);

}  // namespace lra::pathfinder
