// Doors open upwards only: a folder includes nothing that stands below it in the table of
// docs/architecture.md.
#include <map>
#include <regex>

#include <gtest/gtest.h>

#include "base/file.h"

namespace lra {
namespace {

const std::vector<std::string> kRooms = {"base", "data", "tasks", "batch", "kernels", "nn",     "models",
                                         "runs", "eval", "train", "bench", "analyze", "report", "cli"};

TEST(RoomsTest, IncludeOnlyWhatStandsAboveThem) {
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < kRooms.size(); ++i) place[kRooms[i]] = i;
  const std::regex include("#include \"([a-z]+)/");
  int seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(LRA_SOURCE_DIR) / "src")) {
    if (!entry.is_regular_file() ||
        !std::regex_match(entry.path().extension().string(), std::regex("\\.(cpp|h|cuh?)")))
      continue;
    const std::string room = fs::relative(entry.path(), fs::path(LRA_SOURCE_DIR) / "src").begin()->string();
    ASSERT_TRUE(place.contains(room)) << entry.path() << " stands in no room";
    const std::string text = read_text(entry.path());
    for (auto at = std::sregex_iterator(text.begin(), text.end(), include); at != std::sregex_iterator();
         ++at) {
      const std::string other = (*at)[1];
      if (other == "support" && entry.path().native().ends_with("_test.cpp")) continue;  // tests/support
      ASSERT_TRUE(place.contains(other)) << entry.path() << " includes " << other;
      EXPECT_LE(place[other], place[room]) << entry.path() << " includes " << (*at)[0];
      ++seen;
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(RoomsTest, CudaSourcesAndCpuKernelsSeeNoTorchHeader) {
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(LRA_SOURCE_DIR) / "src")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".cu") && !name.ends_with("_cpu.cpp")) continue;
    const std::string text = read_text(entry.path());
    for (const char* header : {"<torch/", "<ATen/", "<c10/"})
      EXPECT_EQ(text.find(header), text.npos) << entry.path();
  }
}

}  // namespace
}  // namespace lra
