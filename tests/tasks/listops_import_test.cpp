#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/temp_dir.h"
#include "tasks/listops.h"

namespace lra::listops {
namespace {

constexpr const char* kGood =
    "Source\tTarget\n"
    "( ( ( [MAX 4 ) 7 ) ] )\t7\n"
    "( ( ( [SM ( ( ( [MIN 2 ) 3 ) ] ) ) 9 ) ] )\t1\n";

// A folder in the published layout whose validation file is `val`.
void publish(const fs::path& folder, const std::string& val = kGood) {
  write_text(folder / "basic_train.tsv", kGood);
  write_text(folder / "basic_val.tsv", val);
  write_text(folder / "basic_test.tsv", "Source\tTarget\n( ( ( [MIN 4 ) 7 ) ] )\t4\n");
}

MemorySink import_from(const fs::path& folder, const Options& options = {}) {
  set_log_level(LogLevel::kQuiet);
  MemorySink made;
  made.notes = find_task("listops").import(options, folder, made);
  return made;
}

std::string complaint(const std::string& val, const Options& options = {}) {
  const TempDir folder;
  publish(folder.path(), val);
  return error_text([&] { import_from(folder.path(), options); });
}

TEST(ListOpsImport, ReadsThePublishedFiles) {
  const TempDir folder;
  publish(folder.path());
  const MemorySink made = import_from(folder.path());
  EXPECT_EQ(made.splits[0].size(), 2);
  EXPECT_EQ(made.splits[1].labels, (std::vector<int64_t>{7, 1}));
  EXPECT_EQ(made.splits[2].tokens, (std::vector<uint16_t>{kMin, 5, 8, kClose}));
}

TEST(ListOpsImport, DropsBracketsWhenAsked) {
  const TempDir folder;
  publish(folder.path());
  Options options;
  options.brackets = "dropped";
  EXPECT_EQ(import_from(folder.path(), options).splits[2].tokens, (std::vector<uint16_t>{kMin, 5, 8}));
}

TEST(ListOpsImport, PrefersTheInnerCopyOfTheRelease) {
  const TempDir root;
  publish(root / "lra_release/listops-1000", "this outer copy is damaged");
  publish(root / "lra_release/lra_release/listops-1000");
  EXPECT_EQ(import_from(root.path()).splits[1].size(), 2);
  EXPECT_EQ(import_from(root / "lra_release").splits[1].size(), 2);
}

TEST(ListOpsImport, AcceptsWindowsLineEndsAndAMissingLastOne) {
  EXPECT_EQ(complaint("Source\tTarget\r\n( ( ( [MAX 4 ) 7 ) ] )\t7\r\n( ( ( [MAX 4 ) 7 ) ] )\t7"), "");
}
TEST(ListOpsImport, SaysWhereItLooked) {
  const TempDir folder;
  EXPECT_TRUE(says(error_text([&] { import_from(folder.path()); }), "basic_train.tsv was not found in it"));
}
TEST(ListOpsImport, NamesAMissingSplit) {
  const TempDir folder;
  publish(folder.path());
  fs::remove(folder / "basic_test.tsv");
  EXPECT_TRUE(says(error_text([&] { import_from(folder.path()); }), "basic_test.tsv"));
}
TEST(ListOpsImport, RefusesAWrongLabelWithLineFoundAndExpected) {
  EXPECT_TRUE(says(complaint("Source\tTarget\n( ( ( [MAX 4 ) 7 ) ] )\t4\n"),
                   "basic_val.tsv line 2: the label is 4, but the tree's value is 7"));
}
TEST(ListOpsImport, RefusesALabelThatIsNoDigit) {
  EXPECT_TRUE(says(complaint("Source\tTarget\n( ( ( [MAX 4 ) 7 ) ] )\t12\n"),
                   "line 2: the label '12' is not in 0..9"));
}
TEST(ListOpsImport, RefusesAMissingHeader) {
  EXPECT_TRUE(says(complaint("( ( ( [MAX 4 ) 7 ) ] )\t7\n"), "expected 'Source<TAB>Target'"));
}
TEST(ListOpsImport, RefusesALineCutShort) {
  EXPECT_TRUE(says(complaint("Source\tTarget\n( ( ( [MAX 4 ) 7"), "line 2: 1 field"));
  EXPECT_TRUE(says(complaint("Source\tTarget\n( ( ( [MAX 4 ) 7\t7\n"), "line 2: no tree"));
}
TEST(ListOpsImport, RefusesAFileWithoutExamples) {
  EXPECT_TRUE(says(complaint("Source\tTarget\n"), "there are no examples"));
  EXPECT_TRUE(says(complaint(""), "expected 'Source<TAB>Target'"));
}
TEST(ListOpsImport, RefusesABareDigit) {
  EXPECT_TRUE(says(complaint("Source\tTarget\n7\t7\n"), "line 2: a bare digit"));
}
TEST(ListOpsImport, RefusesATreeLongerThanTheTaskAllows) {
  Options options;
  options.max_length = 5;
  EXPECT_TRUE(says(complaint(kGood, options), "line 3: 7 tokens, expected at most 5"));
}

Json check_text(const std::string& text) {
  const TempDir folder;
  return check_file(folder.write("some.tsv", text));
}

TEST(ListOpsCheck, ReadsTheLabelOnEitherSide) {
  EXPECT_EQ(check_text(kGood).at("agree"), 2);
  EXPECT_EQ(check_text("7\t( ( ( [MAX 4 ) 7 ) ] )\n9\t9\n").at("agree"), 2);
}
TEST(ListOpsCheck, ReportsDisagreementsWithTheFirst) {
  const Json report = check_text("7\t( ( ( [MAX 4 ) 7 ) ] )\n3\t( ( ( [MAX 4 ) 7 ) ] )\n");
  EXPECT_EQ(report.at("rows"), 2);
  EXPECT_EQ(report.at("disagree"), 1);
  EXPECT_TRUE(
      says(report.at("first_disagreement"), "some.tsv line 2: the label is 3, but the tree's value is 7"));
}

}  // namespace
}  // namespace lra::listops
