#include "data/tsv.h"

#include <vector>

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

std::vector<std::string> lines_of(const std::string& text, size_t longest = 100) {
  const TempDir folder;
  LineReader reader(folder.write("x.tsv", text), longest);
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  return lines;
}
using Lines = std::vector<std::string>;

TEST(LineReader, ReadsLinesWithAndWithoutALastEnd) {
  EXPECT_EQ(lines_of("a\nb\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb"), (Lines{"a", "b"}));
}
TEST(LineReader, ToleratesCarriageReturns) { EXPECT_EQ(lines_of("a\r\n\r\nb\r\n"), (Lines{"a", "", "b"})); }
TEST(LineReader, GivesNothingForAnEmptyFile) { EXPECT_EQ(lines_of(""), Lines{}); }
TEST(LineReader, KeepsEmptyLines) { EXPECT_EQ(lines_of("\n\na"), (Lines{"", "", "a"})); }

TEST(LineReader, AllowsExactlyTheLongestLine) {
  EXPECT_EQ(lines_of("12345\n12345\r\n12345", 5), (Lines{"12345", "12345", "12345"}));
}
TEST(LineReader, RefusesALongerLineAndNamesIt) {
  EXPECT_TRUE(says(error_text([] { lines_of("ok\n123456\n", 5); }), "x.tsv line 2: longer than 5 bytes"));
}
TEST(LineReader, RefusesAFileThatIsOneEndlessLine) {
  EXPECT_TRUE(says(error_text([] { lines_of(std::string(1'000'000, 'x'), 5); }), "line 1"));
}
TEST(LineReader, RefusesZeroBytesAndNamesLineAndColumn) {
  EXPECT_TRUE(
      says(error_text([] { lines_of(std::string("ok\nab\0c\n", 8)); }), "line 2: a zero byte at column 3"));
}
TEST(LineReader, NamesAMissingFile) {
  EXPECT_TRUE(says(error_text([] { LineReader("no/such/file.tsv"); }), "no/such/file.tsv"));
}

TEST(SplitTabs, KeepsEmptyFieldsAndQuotes) {
  const auto fields = split_tabs<3>("a\t\t\"b", {"x.tsv", "line", 1});
  EXPECT_EQ(fields[0], "a");
  EXPECT_EQ(fields[1], "");
  EXPECT_EQ(fields[2], "\"b");
}
TEST(SplitTabs, RefusesTooFewFields) {
  EXPECT_TRUE(says(error_text([] {
                     split_tabs<2>("alone", {"x.tsv", "line", 7});
                   }),
                   "x.tsv line 7: 1 field separated"));
}
TEST(SplitTabs, RefusesTooManyFields) {
  EXPECT_TRUE(says(error_text([] { split_tabs<2>("a\tb\tc", {"x.tsv", "line", 7}); }), "more than 2 fields"));
}

}  // namespace
}  // namespace lra
