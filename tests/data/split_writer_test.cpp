#include "data/split_writer.h"

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

DatasetInfo info(int64_t vocab_size) {
  DatasetInfo info;
  info.task = "made", info.version = "1", info.variant = "v", info.split = "train";
  info.vocab_size = vocab_size, info.num_classes = 2, info.max_length = 5000;
  return info;
}
Tokens wide(const std::vector<uint16_t>& ids) { return {std::span<const uint16_t>(ids)}; }
Tokens narrow(const std::vector<uint8_t>& ids) { return {std::span<const uint8_t>(ids)}; }

TEST(SplitWriter, StoresIdsInOneByteWhateverTheyCameAs) {
  const TempDir folder;
  const std::vector<uint16_t> ids16 = {3, 255, 0};
  const std::vector<uint8_t> ids8 = {3, 255, 0};
  SplitWriter from_wide(folder / "wide", info(257)), from_narrow(folder / "narrow", info(257));
  from_wide.add(wide(ids16), 1);
  from_narrow.add(narrow(ids8), 1);
  EXPECT_EQ(from_wide.commit(), from_narrow.commit());
  const Dataset data(folder / "wide");
  EXPECT_EQ(data.tokens(0).width(), 1);
  EXPECT_EQ(data.tokens(0)[1], 255);
}

TEST(SplitWriter, TakesTwoBytesFromTheFirstIdThatNeedsThem) {
  const TempDir folder;
  SplitWriter writer(folder / "data", info(257));
  writer.add(wide({1, 255}), wide({7}), 0);
  writer.add(wide({256, 2}), wide({8, 9}), 1);
  writer.add(narrow({4}), wide({10}), 0);
  const std::string sha256 = writer.commit();
  const Dataset data(folder / "data");
  EXPECT_EQ(data.compute_sha256(), sha256);
  EXPECT_EQ(data.tokens(0).width(), 2);
  EXPECT_EQ(data.tokens2(0).width(), 1) << "the other document has no such id";
  EXPECT_EQ(data.tokens(0)[1], 255);
  EXPECT_EQ(data.tokens(1)[0], 256);
  EXPECT_EQ(data.tokens(2)[0], 4);
  EXPECT_EQ(data.tokens2(1)[1], 9);
}

TEST(SplitWriter, LeavesOutPaddingAndRemembersWhereTheOthersStood) {
  const TempDir folder;
  DatasetInfo pixels = info(256);
  pixels.pad_id = 0;
  SplitWriter writer(folder / "data", pixels, Padding::kInside);
  std::vector<uint8_t> row(300);
  row[2] = 9, row[299] = 7;
  writer.add(narrow(row), 1);
  writer.add(narrow({0, 0}), 0);  // all padding: one token stays
  const std::string sha256 = writer.commit();
  const Dataset data(folder / "data");
  EXPECT_EQ(data.compute_sha256(), sha256);
  EXPECT_NO_THROW(data.check_contents());
  ASSERT_EQ(data.length(0), 2);
  EXPECT_EQ(data.tokens(0)[0], 9);
  EXPECT_EQ(data.places(0)[0], 2);
  EXPECT_EQ(data.tokens(0)[1], 7);
  EXPECT_EQ(data.places(0)[1], 299);
  ASSERT_EQ(data.length(1), 1);
  EXPECT_EQ(data.places(1)[0], 0);
}

TEST(SplitWriter, WritesMoreThanItsBuffers) {
  const TempDir folder;
  SplitWriter writer(folder / "big", info(257));
  std::vector<uint16_t> first(5000), second(4999);
  for (int64_t i = 0; i < 600; ++i) {  // 12 MB in all: the buffers are 1 MB, the copies 4 MB
    for (size_t t = 0; t < first.size(); ++t)
      first[t] = static_cast<uint16_t>((i + static_cast<int64_t>(t)) % 257);
    for (size_t t = 0; t < second.size(); ++t)
      second[t] = static_cast<uint16_t>((7 * i + static_cast<int64_t>(t)) % 257);
    writer.add(wide(first), wide(second), i % 2);
  }
  EXPECT_EQ(writer.tokens(), 600 * 9999);
  const std::string sha256 = writer.commit();
  const Dataset data(folder / "big");
  EXPECT_EQ(data.compute_sha256(), sha256);
  EXPECT_EQ(data.info().sha256, sha256);
  for (const int64_t i : {0, 311, 599}) {
    EXPECT_EQ(data.tokens(i)[4999], (i + 4999) % 257);
    EXPECT_EQ(data.tokens2(i)[4998], (7 * i + 4998) % 257);
    EXPECT_EQ(data.label(i), i % 2);
  }
}

TEST(SplitWriter, LeavesNothingWithoutACommit) {
  const TempDir folder;
  {
    SplitWriter writer(folder / "gone", info(256));
    writer.add(narrow({1, 2}), 0);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SplitWriter, RefusesWhatDoesNotFitTheDeclaration) {
  const TempDir folder;
  SplitWriter writer(folder / "x", info(256));
  EXPECT_TRUE(says(error_text([&] { writer.add(wide({256}), 0); }), "token 256 does not fit"));
  EXPECT_TRUE(says(error_text([&] { writer.add(narrow({}), 0); }), "0 tokens, expected 1 to 5000"));
  EXPECT_TRUE(says(error_text([&] { writer.add(narrow({1}), 2); }), "the label 2, expected 0 to 1"));
}

TEST(SplitWriter, RefusesOneDocumentAmongTwo) {
  const TempDir folder;
  SplitWriter writer(folder / "x", info(256));
  writer.add(narrow({1}), narrow({2}), 0);
  EXPECT_TRUE(says(error_text([&] { writer.add(narrow({1}), 0); }), "one document"));
}

TEST(SpillFile, ReadsBackAnyPlace) {
  const TempDir folder;
  SpillFile file(folder.path());
  std::string bytes(3'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
  file.append(std::string_view(bytes).substr(0, 2'000'000));
  file.append(std::string_view(bytes).substr(2'000'000));
  std::string part(1'000, '\0');
  file.read(1'999'500, part.data(), part.size());
  EXPECT_EQ(part, bytes.substr(1'999'500, 1'000));
  std::string all;
  file.read_all([&](std::string_view more) { all += more; });
  EXPECT_EQ(all, bytes);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace lra
