// label: slow
#include "tasks/text.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/threads.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/temp_dir.h"
#include "tasks/baselines.h"
#include "tasks/bytes.h"

namespace lra::text {
namespace {

// Writes `count` reviews of a class as ID_RATING.txt, last id first where `backwards`.
void publish_class(const TempDir& root, const std::string& part, int count, bool backwards) {
  fs::create_directories(root / part);
  const bool positive = part.ends_with("pos");
  for (int i = 0; i < count; ++i) {
    const int id = backwards ? count - 1 - i : i;
    root.write(fmt::format("{}/{}_{}.txt", part, id, positive ? 7 + id % 4 : 1 + id % 4),
               fmt::format("{} number {}", part, id));
  }
}

// A small folder in the published layout: 40 training and 15 test reviews of each class.
void publish(const TempDir& root, const std::string& folder = "aclImdb", bool backwards = false) {
  for (const char* name : {"neg", "pos"}) {
    publish_class(root, fmt::format("{}/train/{}", folder, name), 40, backwards);
    publish_class(root, fmt::format("{}/test/{}", folder, name), 15, backwards);
  }
}

MemorySink import_from(const fs::path& folder, const Options& options = {}) {
  set_log_level(LogLevel::kQuiet);
  MemorySink made;
  made.notes = find_task("text").import(options, folder, made);
  return made;
}

std::string review(const Examples& examples, int64_t i) {
  std::string text;
  for (int64_t t = examples.offsets[static_cast<size_t>(i)]; t < examples.offsets[static_cast<size_t>(i) + 1];
       ++t)
    text += static_cast<char>(examples.tokens[static_cast<size_t>(t)] - 1);
  return text;
}

int64_t positives(const Examples& examples) {
  return std::count(examples.labels.begin(), examples.labels.end(), kPositive);
}

bool same(const MemorySink& a, const MemorySink& b) {
  for (size_t s = 0; s < std::size(kSplits); ++s) {
    if (a.splits[s].tokens != b.splits[s].tokens || a.splits[s].labels != b.splits[s].labels) return false;
  }
  return true;
}

TEST(TextImport, HoldsOutATenthOfEachClass) {
  const TempDir root;
  publish(root);
  const MemorySink made = import_from(root.path());
  EXPECT_EQ(made.splits[0].size(), 72);
  EXPECT_EQ(made.splits[1].size(), 8);
  EXPECT_EQ(made.splits[2].size(), 30);
  for (const Examples& split : made.splits) EXPECT_EQ(2 * positives(split), split.size());
}

TEST(TextImport, HoldsOutExactly2500OfThePublishedNumber) {
  const TempDir root;
  for (const char* name : {"neg", "pos"}) {
    publish_class(root, fmt::format("train/{}", name), 12'500, false);
    publish_class(root, fmt::format("test/{}", name), 1, false);
  }
  const MemorySink made = import_from(root.path());
  EXPECT_EQ(made.splits[0].size(), 22'500);
  EXPECT_EQ(made.splits[1].size(), 2'500);
  EXPECT_EQ(positives(made.splits[1]), 1'250);
}

TEST(TextImport, LabelsByFolderAndKeepsEveryReviewOnce) {
  const TempDir root;
  publish(root);
  const MemorySink made = import_from(root.path());
  std::set<std::string> seen;
  for (const Examples& split : made.splits) {
    for (int64_t i = 0; i < split.size(); ++i) {
      const std::string text = review(split, i);
      EXPECT_EQ(text.find("/pos") != text.npos, split.labels[static_cast<size_t>(i)] == kPositive) << text;
      EXPECT_EQ(text.find("test") != text.npos, &split == &made.splits[2]) << text;
      seen.insert(text);
    }
  }
  EXPECT_EQ(seen.size(), 110u);
}

TEST(TextImport, DoesNotSortByClass) {
  const TempDir root;
  publish(root);
  for (const Examples& split : import_from(root.path()).splits) {
    EXPECT_FALSE(std::is_sorted(split.labels.begin(), split.labels.end()));
  }
}

TEST(TextImport, GivesTheSameWhateverTheOrderOnDiskAndTheNumberOfThreads) {
  const TempDir forwards, backwards;
  publish(forwards);
  publish(backwards, "aclImdb", true);
  set_thread_count(1);
  const MemorySink one = import_from(forwards.path());
  set_thread_count(5);
  const MemorySink many = import_from(backwards.path());
  set_thread_count(0);
  EXPECT_TRUE(same(one, many));
  EXPECT_EQ(one.notes.at("reviews"), many.notes.at("reviews"));
}

TEST(TextImport, TakesTheFolderOrItsParent) {
  const TempDir root;
  publish(root);
  EXPECT_TRUE(same(import_from(root.path()), import_from(root / "aclImdb")));
}

TEST(TextImport, ValidatesOnTestWhereFaithful) {
  const TempDir root;
  publish(root);
  Options options;
  options.val = "faithful";
  const MemorySink made = import_from(root.path(), options);
  EXPECT_EQ(made.splits[0].size(), 80);
  EXPECT_EQ(made.splits[1].tokens, made.splits[2].tokens);
  EXPECT_EQ(made.splits[1].labels, made.splits[2].labels);
}

TEST(TextImport, LeavesUnlabelledReviewsAlone) {
  const TempDir root, other;
  publish(root);
  publish(other);
  publish_class(other, "aclImdb/train/unsup", 20, false);
  EXPECT_TRUE(same(import_from(root.path()), import_from(other.path())));
}

TEST(TextImport, SkipsAndCountsEmptyReviewsAndOtherFiles) {
  const TempDir root;
  publish(root);
  root.write("aclImdb/test/neg/99_1.txt", "");
  root.write("aclImdb/test/neg/readme.txt", "no review");
  root.write("aclImdb/test/neg/100_1.txt~", "no review");
  const MemorySink made = import_from(root.path());
  EXPECT_EQ(made.splits[2].size(), 30);
  EXPECT_EQ(made.notes.at("empty_reviews"), 1);
  EXPECT_EQ(made.notes.at("other_files"), 2);
}

TEST(TextImport, KeepsTheFirstBytesAndCountsTheRest) {
  const TempDir root;
  publish(root);
  root.write("aclImdb/test/pos/7_10.txt", std::string("\x00\xff<br />", 8));
  Options options;
  options.max_length = 4;
  const MemorySink made = import_from(root.path(), options);
  const std::vector<uint16_t> wanted = {1, 256, '<' + 1, 'b' + 1};
  EXPECT_NE(
      std::search(made.splits[2].tokens.begin(), made.splits[2].tokens.end(), wanted.begin(), wanted.end()),
      made.splits[2].tokens.end());
  EXPECT_EQ(made.splits[2].tokens.size(), 4u * 30);
  EXPECT_EQ(made.notes.at("reviews").at("test").at("truncated"), 30);
}

TEST(TextImport, WritesDataThatVerifies) {
  const TempDir root, data;
  publish(root);
  set_log_level(LogLevel::kQuiet);
  MakeRequest request;
  request.variant = "own";
  const DataFolder made = import_data(find_task("text"), data.path(), root.path(), request);
  EXPECT_EQ(verify_data(find_task("text"), made).at("splits").at("val").at("examples"), 8);
  const Stats stats = data_stats(find_task("text"), made);
  EXPECT_EQ(stats.json.at("text").at("train").at("truncated"), 0.0);
  EXPECT_GT(stats.json.at("text").at("train").at("distinct_bytes"), 10);
}

TEST(TextImport, SaysWhatIsMissing) {
  const TempDir root;
  EXPECT_TRUE(says(error_text([&] { import_from(root / "nowhere"); }), "nowhere"));
  EXPECT_TRUE(says(error_text([&] { import_from(root.path()); }), "there are no reviews"));
  publish(root);
  fs::remove_all(root / "aclImdb/test/pos");
  EXPECT_TRUE(says(error_text([&] { import_from(root.path()); }), "in test/pos"));
}

TEST(TextImport, RefusesASourceThatHoldsTheSetTwice) {
  const TempDir root;
  publish(root, "one");
  publish(root, "two");
  EXPECT_TRUE(says(error_text([&] { import_from(root.path()); }), "twice, in 'one/' and in 'two/'"));
}

TEST(TextImport, RefusesAnArchiveCutInTheMiddle) {
  const TempDir root;
  const fs::path file = root.write("aclImdb_v1.tar.gz", "\x1f\x8b");
  EXPECT_TRUE(says(error_text([&] { import_from(file); }), "aclImdb_v1.tar.gz"));
}

TEST(TextImport, SomeReviewsDoNotPassForTheBenchmarks) {
  const TempDir root, data;
  publish(root);
  set_log_level(LogLevel::kQuiet);
  MakeRequest request;
  request.variant = "default";
  const DataFolder made = import_data(find_task("text"), data.path(), root.path(), request);
  EXPECT_TRUE(says(error_text([&] { verify_data(find_task("text"), made); }), "the benchmark's own is"));
}

class TextTiny : public testing::Test {
 protected:
  TextTiny() { set_log_level(LogLevel::kQuiet); }
  DataFolder make(const std::vector<std::string>& options = {}) const {
    MakeRequest request;
    request.size = "tiny";
    request.options = options;
    return make_data(task_, folder_.path(), request);
  }

  const Task& task_ = find_task("text");
  TempDir folder_;
};

TEST_F(TextTiny, VerifiesAsTheKnownSet) {
  set_thread_count(1);
  const DataFolder made = make();
  set_thread_count(0);
  const Json report = verify_data(task_, made);
  for (const char* split : kSplits) EXPECT_EQ(report.at("splits").at(split).at("benchmark"), "tiny") << split;
  EXPECT_EQ(read_manifest(made).at("notes").at("reviews").at("train").at("truncated"), 0);
  EXPECT_FALSE(data_stats(task_, made).tables.empty());
}

// Written down by a separate program from the definition in text_generate.cpp, as were the golden hashes.
TEST_F(TextTiny, MakesTheKnownFirstReviews) {
  const DataFolder made = make();
  EXPECT_EQ(task_.show(made.open("train"), 0),
            "there is a dog in it. the camera work was never bad. we rented it last week.\n"
            "label 1 (pos), 76 bytes\n");
  EXPECT_EQ(
      task_.show(made.open("test"), 0),
      "the film was not really superb. the first part is from 1987. the ending was quite weak. the dialogue "
      "was weak. we rented it last week.\n"
      "label 0 (neg), 134 bytes\n");
}

TEST_F(TextTiny, SaysWhatItsLabelSays) {
  const std::set<std::string> good = {"good",     "great",    "lovely", "clever",    "moving", "superb",
                                      "gripping", "charming", "funny",  "brilliant", "fresh",  "touching"};
  const std::set<std::string> bad = {"bad",    "awful",   "boring", "dull",     "weak", "terrible",
                                     "clumsy", "tedious", "lazy",   "hopeless", "poor", "annoying"};
  const Dataset data = make().open("train");
  for (int64_t i = 0; i < data.size(); ++i) {
    int opinion = 0, sign = 1;
    std::string word;
    for (const char c : decode_bytes(data.tokens(i), "test")) {
      if (c != ' ' && c != '.') {
        word += c;
        continue;
      }
      if (word == "not" || word == "never" || word == "hardly") sign = -1;
      opinion += sign * (good.contains(word) ? 1 : bad.contains(word) ? -1 : 0);
      if (c == '.') sign = 1;
      word.clear();
    }
    ASSERT_EQ(opinion > 0 ? kPositive : kNegative, data.label(i)) << task_.show(data, i);
  }
}

TEST_F(TextTiny, HasBalancedLabels) {
  const Dataset data = make().open("train");
  int64_t positive = 0;
  for (int64_t i = 0; i < data.size(); ++i) positive += data.label(i);
  EXPECT_NEAR(static_cast<double>(positive) / static_cast<double>(data.size()), 0.5, 0.02);
}

TEST_F(TextTiny, GivesMoreToCountedBytesThanToTheMajorityButNotAll) {
  const DataFolder made = make();
  set_thread_count(1);
  const auto one = task_.baselines(made.open("train"), made.open("test"));
  set_thread_count(5);
  const auto many = task_.baselines(made.open("train"), made.open("test"));
  set_thread_count(0);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_NEAR(one[0].accuracy, 0.5, 0.05);
  EXPECT_GT(one[1].accuracy, one[0].accuracy + 0.05);
  EXPECT_LT(one[1].accuracy, 0.8);
  EXPECT_EQ(one[1].accuracy, many[1].accuracy);
}

TEST_F(TextTiny, DrawsOtherReviewsForAnotherSeed) {
  MakeRequest request;
  request.size = "tiny";
  request.seed = 1;
  EXPECT_NE(make_data(task_, folder_.path(), request).open("test").info().sha256,
            make().open("test").info().sha256);
}

TEST_F(TextTiny, RefusesMoreReviewsThanThereAre) {
  EXPECT_TRUE(
      says(error_text([&] { make({"max_length=12"}); }), "different made-up reviews of up to 12 bytes"));
}
TEST_F(TextTiny, HasAValidationSplitOfItsOwn) {
  EXPECT_TRUE(says(error_text([&] { make({"val=faithful"}); }), "val=faithful is for imported ones"));
}

TEST_F(TextTiny, IsTheOnlySizeThatIsMade) {
  const std::string error = error_text([&] { make_data(task_, folder_.path(), MakeRequest{}); });
  EXPECT_TRUE(says(error, "lra data import text FROM"));
  EXPECT_TRUE(says(error, "lra data get text"));
  MakeRequest request;
  request.options = {"max_length=256"};
  EXPECT_TRUE(says(error_text([&] { make_data(task_, folder_.path(), request); }), "has to be imported"));
}

// One byte alone tells the classes apart: counting bytes must find it, and does not mind a byte unseen in
// train.
TEST(TextBaseline, FindsAByteThatTellsTheClassesApart) {
  const TempDir folder;
  DatasetInfo info;
  info.task = "text", info.version = "1", info.variant = "x", info.split = "train", info.sha256 = "";
  info.vocab_size = kByteVocabulary, info.num_classes = 2, info.max_length = 10, info.pad_id = kBytePad;
  Examples train, test;
  for (uint16_t i = 0; i < 40; ++i) {
    const int64_t label = i % 2;
    const auto common = static_cast<uint16_t>(100 + i % 7),
               telling = static_cast<uint16_t>(label == 1 ? 60 : 61);
    train.add(std::vector<uint16_t>{common, telling}, label);
    test.add(std::vector<uint16_t>{telling, common, 200}, label);
  }
  write_dataset(folder / "train.safetensors", train, info);
  write_dataset(folder / "test.safetensors", test, info);
  EXPECT_EQ(bag_of_bytes(Dataset(folder / "train.safetensors"), Dataset(folder / "test.safetensors")), 1.0);
}

TEST(TextShow, EscapesWhatATerminalShouldNotGet) {
  EXPECT_EQ(escaped("a\nb\tc\\d\x1b[2J"), "a\\nb\\tc\\\\d\\x1b[2J");
  EXPECT_EQ(escaped("caf\xc3\xa9 <br />"), "caf\xc3\xa9 <br />");
  EXPECT_EQ(escaped("\xc2\x96 \xff \xc0\xaf \xed\xa0\x80"), "\\xc2\\x96 \\xff \\xc0\\xaf \\xed\\xa0\\x80");
  EXPECT_EQ(escaped("cut caf\xc3"), "cut caf\\xc3");  // the limit may fall inside a character
}

}  // namespace
}  // namespace lra::text
