#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/temp_dir.h"
#include "tasks/task.h"

namespace lra {
namespace {

class MakeData : public testing::Test {
 protected:
  MakeData() { set_log_level(LogLevel::kQuiet); }

  static MakeRequest small() {
    MakeRequest request;
    request.size = "tiny";
    request.counts = SplitCounts{40, 10, 10};
    return request;
  }
  DataFolder make(const MakeRequest& request) const { return make_data(task_, folder_.path(), request); }
  std::string complaint(const MakeRequest& request) const {
    return error_text([&] { make(request); });
  }

  const Task& task_ = find_task("listops");
  TempDir folder_;
};

TEST_F(MakeData, WritesThreeSplitsAndAManifest) {
  const DataFolder made = make(small());
  EXPECT_EQ(made.open("train").size(), 40);
  EXPECT_EQ(made.open("val").size(), 10);
  EXPECT_EQ(made.open("test").size(), 10);
  const Json manifest = read_manifest(made);
  for (const char* split : kSplits) {
    EXPECT_EQ(manifest.at("splits").at(split).at("sha256"), made.open(split).info().sha256);
  }
  EXPECT_GT(manifest.at("notes").at("acceptance_rate").get<double>(), 0);
}

TEST_F(MakeData, StoresEveryOptionWithTheData) {
  EXPECT_EQ(make(small()).open("val").info().options,
            R"({"brackets":"kept","max_depth":3,"max_args":4,"min_length":4,"max_length":24})");
}

TEST_F(MakeData, NamesVariantsByWhatDiffers) {
  MakeRequest request;
  EXPECT_EQ(derive_variant(task_, request), "default");
  request.options = {"brackets=dropped"};
  EXPECT_EQ(derive_variant(task_, request), "brackets-dropped");
  request.options = {"max_depth=10"};
  EXPECT_EQ(derive_variant(task_, request), "default");
  request.size = "tiny";
  request.options = {};
  EXPECT_EQ(derive_variant(task_, request), "tiny");
  request.seed = 3;
  EXPECT_EQ(derive_variant(task_, request), "tiny-seed3");
  request.counts = SplitCounts{1000, 200, 200};
  request.options = {"listops.max_args=5"};
  EXPECT_EQ(derive_variant(task_, request), "tiny-max_args-5-n1000-200-200-seed3");
}

TEST_F(MakeData, LeavesEqualDataAlone) {
  const DataFolder made = make(small());
  const auto before = fs::last_write_time(made.manifest_path());
  make(small());
  EXPECT_EQ(fs::last_write_time(made.manifest_path()), before);
}

TEST_F(MakeData, RefusesToOverwriteOtherDataWithoutForce) {
  MakeRequest request = small();
  request.variant = "mine";
  make(request);
  request.seed = 1;
  EXPECT_TRUE(says(complaint(request), "holds other data already. Add --force"));
  request.force = true;
  EXPECT_EQ(make(request).open("train").info().seed, 1u);
}

TEST_F(MakeData, RemakesAHalfMadeFolder) {
  const DataFolder made = make(small());
  fs::remove(made.manifest_path());
  fs::remove(made.split_path("test"));
  EXPECT_EQ(make(small()).open("test").size(), 10);
}

TEST_F(MakeData, NeverReplacesAFolderWithSomebodysFiles) {
  MakeRequest request = small();
  request.variant = "mine";
  request.force = true;
  write_text(folder_ / "listops/mine/thesis.tex", "years of work");
  EXPECT_TRUE(says(complaint(request), "holds 'thesis.tex'"));
  EXPECT_EQ(read_text(folder_ / "listops/mine/thesis.tex"), "years of work");
}

TEST_F(MakeData, RefusesToWorkBesideAnotherProcess) {
  fs::create_directories(folder_ / "listops");
  MakeRequest request = small();
  request.variant = "mine";
  const FileLock other(folder_ / "listops/.mine.lock", "test", "taken");
  EXPECT_TRUE(says(complaint(request), "another process is making"));
}

TEST_F(MakeData, LeavesOldDataWhenMakingFails) {
  MakeRequest request = small();
  request.variant = "mine";
  const DataFolder made = make(request);
  const std::string before = made.open("train").info().sha256;
  request.force = true;
  request.counts = SplitCounts{1000, 1, 1};
  request.options = {"max_args=2", "max_depth=2", "min_length=3"};
  EXPECT_TRUE(says(complaint(request), "distinct trees"));
  EXPECT_EQ(made.open("train").info().sha256, before);
  EXPECT_EQ(list_data(folder_.path()).size(), 1u);
}

TEST_F(MakeData, LeavesNoTraceOfAFailedAttempt) {
  MakeRequest request = small();
  request.options = {"max_args=2", "max_depth=2", "min_length=3"};
  request.counts = SplitCounts{1000, 1, 1};
  EXPECT_NE(complaint(request), "");
  EXPECT_TRUE(list_data(folder_.path()).empty());
}

TEST_F(MakeData, SuggestsAnOptionForAnUnknownOne) {
  MakeRequest request = small();
  request.options = {"max_dept=3"};
  EXPECT_TRUE(says(complaint(request),
                   "--option max_dept=3: unknown key 'listops.max_dept'. Did you mean 'max_depth'?"));
}
TEST_F(MakeData, RefusesAnOptionWithoutAValue) {
  MakeRequest request = small();
  request.options = {"brackets"};
  EXPECT_TRUE(says(complaint(request), "--option brackets: expected KEY=VALUE"));
}
TEST_F(MakeData, SuggestsASizeForAnUnknownOne) {
  MakeRequest request = small();
  request.size = "tny";
  EXPECT_TRUE(says(complaint(request), "Did you mean 'tiny'?"));
}
TEST_F(MakeData, KeepsTheBenchmarksNamesForTheBenchmarksData) {
  MakeRequest request = small();
  request.variant = "default";
  EXPECT_TRUE(says(complaint(request), "'default' names the benchmark's own data"));
}
TEST_F(MakeData, RefusesNamesThatLeaveTheFolder) {
  MakeRequest request = small();
  for (const char* name : {"../x", "a/b", ".hidden", "a b"}) {
    request.variant = name;
    EXPECT_TRUE(says(complaint(request), "cannot name a variant")) << name;
  }
}
TEST_F(MakeData, RefusesEmptySplits) {
  MakeRequest request = small();
  request.counts = SplitCounts{40, 0, 10};
  EXPECT_TRUE(says(complaint(request), "0 examples were asked for"));
}

TEST_F(MakeData, ListsWhatIsComplete) {
  make(small());
  fs::create_directories(folder_ / "listops/half");
  write_text(folder_ / "notes.txt", "");
  const auto found = list_data(folder_.path());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].variant, "tiny-n40-10-10");
}
TEST_F(MakeData, ListsNothingWhereThereIsNothing) { EXPECT_TRUE(list_data(folder_ / "nowhere").empty()); }

}  // namespace
}  // namespace lra
