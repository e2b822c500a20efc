#include "data/tsv.h"

#include <algorithm>
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

// Gives what it is asked for in steps of its own.
class SteppingStream : public ByteStream {
 public:
  SteppingStream(std::string_view bytes, size_t step) : bytes_(bytes), step_(step) {}
  size_t read(char* into, size_t most) override {
    const size_t n = bytes_.copy(into, std::min(most, step_));
    bytes_.remove_prefix(n);
    return n;
  }
  std::string_view place() const override { return "x.tsv"; }

 private:
  std::string_view bytes_;
  size_t step_;
};

Lines batched(const std::string& text, size_t longest = 100, size_t batch = 1 << 20, size_t step = 1 << 20) {
  SteppingStream stream(text, step);
  LineBatches batches(stream, longest, batch);
  Lines all;
  for (std::vector<Line> lines; batches.next(lines);) {
    EXPECT_FALSE(lines.empty());
    for (const Line& line : lines) {
      all.emplace_back(line.text);
      EXPECT_EQ(line.place.number, static_cast<int64_t>(all.size()));
    }
  }
  return all;
}

TEST(LineBatches, GivesTheLinesOfLineReaderForEveryBatchAndStep) {
  const std::string text = "a\r\n\n12345\nbc\r\r\n\n\nlast\r";
  const Lines expected = lines_of(text, 5), expected_with_end = lines_of(text + "\n", 5);
  for (size_t batch = 1; batch < 30; ++batch) {
    for (const size_t step : {1, 2, 3, 7, 100}) {
      EXPECT_EQ(batched(text, 5, batch, step), expected) << batch << " " << step;
      EXPECT_EQ(batched(text + "\n", 5, batch, step), expected_with_end) << batch << " " << step;
    }
  }
}
TEST(LineBatches, GivesNothingForAnEmptyFile) { EXPECT_EQ(batched(""), Lines{}); }
TEST(LineBatches, AllowsExactlyTheLongestLine) {
  for (size_t batch = 1; batch < 30; ++batch) {
    EXPECT_EQ(batched("12345\n12345\r\n12345", 5, batch), (Lines{"12345", "12345", "12345"})) << batch;
  }
}
TEST(LineBatches, RefusesALongerLineAndNamesIt) {
  for (size_t batch = 1; batch < 30; ++batch) {
    for (const char* text : {"ok\n123456\n", "ok\n123456", "ok\n12345678901234567890"}) {
      EXPECT_TRUE(says(error_text([&] { batched(text, 5, batch); }), "x.tsv line 2: longer than 5 bytes"))
          << batch;
    }
  }
}
TEST(LineBatches, RefusesZeroBytesAndNamesLineAndColumn) {
  for (size_t batch = 1; batch < 12; ++batch) {
    EXPECT_TRUE(says(error_text([&] { batched(std::string("ok\nab\0c\n", 8), 100, batch); }),
                     "x.tsv line 2: a zero byte at column 3"));
  }
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
