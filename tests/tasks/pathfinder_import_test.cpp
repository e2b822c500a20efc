#include <set>

#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/pack.h"
#include "support/tar.h"
#include "tasks/pathfinder.h"

namespace lra::pathfinder {
namespace {

// Twenty images in two batches: image k is of the value 1 + k everywhere, its label k mod 2.
struct Release {
  std::vector<std::pair<std::string, std::string>> files;  // below the difficulty's folder

  explicit Release(int64_t side = 32) {
    std::string metadata[2];
    for (int k = 0; k < 20; ++k) {
      const GrayImage image{
          side, side, std::vector<uint8_t>(static_cast<size_t>(side * side), static_cast<uint8_t>(1 + k))};
      const std::string folder = fmt::format("imgs/{}", k / 10), name = fmt::format("sample_{}.png", k % 10);
      files.emplace_back(folder + "/" + name, png_bytes(image));
      metadata[k / 10] += fmt::format("{} {} {} {} 1.8 14 4 5 1.5 1 1\n", folder, name, k % 10, k % 2);
    }
    files.emplace_back("metadata/1.npy", metadata[1]);
    files.emplace_back("metadata/0.npy", metadata[0]);
  }
  std::string& at(const std::string& name) {
    for (auto& [path, bytes] : files) {
      if (path == name) return bytes;
    }
    throw std::runtime_error(name);
  }
  void write(const fs::path& folder) const {
    for (const auto& [path, bytes] : files) write_text(folder / path, bytes);
  }
};

MemorySink import_from(const fs::path& from) {
  set_log_level(LogLevel::kQuiet);
  MemorySink made;
  made.notes = find_task("pathfinder").import(Options(), from, made);
  return made;
}
MemorySink import_release(const Release& release) {
  const TempDir folder;
  release.write(folder / "pathfinder32/curv_contour_length_14");
  return import_from(folder.path());
}
std::string complaint(const Release& release) {
  return error_text([&] { import_release(release); });
}

TEST(PathfinderImport, ReadsEveryImageOnceWithItsLabel) {
  const MemorySink made = import_release(Release());
  EXPECT_EQ(made.splits[0].size(), 16);
  EXPECT_EQ(made.splits[1].size(), 2);
  EXPECT_EQ(made.splits[2].size(), 2);
  std::set<int> seen;
  for (const Examples& split : made.splits) {
    for (int64_t i = 0; i < split.size(); ++i) {
      const int value = split.first(i)[1023];
      EXPECT_EQ(split.labels[static_cast<size_t>(i)], (value - 1) % 2);
      seen.insert(value);
    }
  }
  EXPECT_EQ(seen.size(), 20u);
}
TEST(PathfinderImport, TakesAnyLevelOfTheRelease) {
  const TempDir folder;
  Release().write(folder / "lra_release/lra_release/pathfinder32/curv_contour_length_14");
  const auto tokens = import_from(folder.path()).splits[0].tokens;
  for (const char* below : {"lra_release/lra_release", "lra_release/lra_release/pathfinder32",
                            "lra_release/lra_release/pathfinder32/curv_contour_length_14"}) {
    EXPECT_EQ(import_from(folder / below).splits[0].tokens, tokens) << below;
  }
}
TEST(PathfinderImport, GivesTheSameFromAnArchiveWhoseMetadataComesFirst) {
  if (!archives_supported()) GTEST_SKIP() << "this build reads no archives";
  const Release release;
  TarBuilder tar;
  for (auto file = release.files.rbegin(); file != release.files.rend(); ++file) {
    tar.file("pathfinder32/curv_contour_length_14/" + file->first, file->second);
  }
  tar.file("pathfinder32/curv_baseline/imgs/0/sample_0.png", "of another set");
  const TempDir folder;
  EXPECT_EQ(import_from(folder.write("p.tar.xz", pack(tar.bytes(), Packing::kXz))).splits[0].tokens,
            import_release(release).splits[0].tokens);
}
TEST(PathfinderImport, LeavesOutAndCountsEmptyFiles) {
  Release release;
  release.at("imgs/0/sample_3.png") = "";
  const MemorySink made = import_release(release);
  EXPECT_EQ(made.notes.at("images"), 19);
  EXPECT_EQ(made.notes.at("empty_files"), 1);
}
TEST(PathfinderImport, LeavesOutAndCountsImagesThatNoMetadataLists) {
  Release release;
  release.files.emplace_back("imgs/1/sample_99.png", release.at("imgs/1/sample_0.png"));
  EXPECT_EQ(import_release(release).notes.at("unlisted"), 1);
}
TEST(PathfinderImport, NamesAMissingImage) {
  Release release;
  std::erase_if(release.files, [](const auto& file) { return file.first == "imgs/1/sample_4.png"; });
  EXPECT_TRUE(says(complaint(release), "1.npy row 5: the image imgs/1/sample_4.png is not there"));
}
TEST(PathfinderImport, NamesABrokenPng) {
  Release release;
  std::string& bytes = release.at("imgs/1/sample_4.png");
  bytes.resize(bytes.size() / 2);
  EXPECT_TRUE(says(complaint(release), "sample_4.png"));
}
TEST(PathfinderImport, RefusesAnImageOfAnotherSize) {
  EXPECT_TRUE(says(complaint(Release(64)), "64 by 64 pixels, expected 32 by 32"));
}
TEST(PathfinderImport, NamesTheRowOfABadLabel) {
  Release release;
  std::string& rows = release.at("metadata/0.npy");
  rows.replace(rows.find(" 0 0 1.8"), 4, " 0 7");
  EXPECT_TRUE(says(complaint(release), "0.npy row 1: the label '7' is neither 0 nor 1"));
}
TEST(PathfinderImport, NamesARowThatIsCut) {
  Release release;
  std::string& rows = release.at("metadata/0.npy");
  rows = "imgs/0 sample_0.png\n";
  EXPECT_TRUE(says(complaint(release), "2 columns"));
}
TEST(PathfinderImport, SaysWhatItLookedFor) {
  const TempDir folder;
  EXPECT_TRUE(says(error_text([&] { import_from(folder.path()); }), "pathfinder32/curv_contour_length_14"));
}

}  // namespace
}  // namespace lra::pathfinder
