#include "tasks/retrieval.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/pack.h"
#include "support/tar.h"
#include "tasks/bytes.h"

namespace lra::retrieval {
namespace {

constexpr const char* kGood = "1.0\tA1\tB1\tfirst paper\tsecond paper\n0.0\tA2\tB2\tone\tother\n";

void publish(const fs::path& folder, const std::string& eval = kGood) {
  fs::create_directories(folder);
  write_text(folder / "new_aan_pairs.train.tsv", kGood);
  write_text(folder / "new_aan_pairs.eval.tsv", eval);
  write_text(folder / "new_aan_pairs.test.tsv", "1.0\tA\tB\ttext of a\ttext of b\n");
}

MemorySink import_from(const fs::path& from, const Options& options = {}) {
  set_log_level(LogLevel::kQuiet);
  MemorySink made;
  made.notes = find_task("retrieval").import(options, from, made);
  return made;
}
MemorySink import_eval(const std::string& eval, const Options& options = {}) {
  const TempDir folder;
  publish(folder.path(), eval);
  return import_from(folder.path(), options);
}
std::string complaint(const std::string& eval) {
  return error_text([&] { import_eval(eval); });
}
std::string first_of(const Examples& examples, int64_t i) { return decode_bytes(examples.first(i), "test"); }
std::string second_of(const Examples& examples, int64_t i) {
  return decode_bytes(examples.second(i), "test");
}

TEST(RetrievalImport, ReadsBothDocumentsAndTheLabel) {
  const MemorySink made = import_eval(kGood);
  ASSERT_EQ(made.splits[1].size(), 2);
  EXPECT_EQ(made.splits[1].labels, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(first_of(made.splits[1], 0), "first paper");
  EXPECT_EQ(second_of(made.splits[1], 1), "other");
}
TEST(RetrievalImport, TakesQuotesAsData) {
  const MemorySink made = import_eval("1.0\ta\tb\t\"open quote\tsays \"x\"\" y\n0.0\ta\tb\tp\tq\n");
  ASSERT_EQ(made.splits[1].size(), 2);
  EXPECT_EQ(first_of(made.splits[1], 0), "\"open quote");
  EXPECT_EQ(second_of(made.splits[1], 0), "says \"x\"\" y");
}
TEST(RetrievalImport, CutsALineAtItsFirstFourTabsOnly) {
  EXPECT_EQ(second_of(import_eval("1\ta\tb\tp\tq\tr\n").splits[1], 0), "q\tr");
}
TEST(RetrievalImport, CutsDocumentsAtTheLimit) {
  Options options;
  options.max_length = 3;
  const MemorySink made = import_eval(kGood, options);
  EXPECT_EQ(first_of(made.splits[1], 0), "fir");
  EXPECT_EQ(second_of(made.splits[1], 0), "sec");
}
TEST(RetrievalImport, GivesAnEmptyDocumentABlankAndCountsIt) {
  const MemorySink made = import_eval("1\ta\tb\t\tq\n");
  EXPECT_EQ(first_of(made.splits[1], 0), " ");
  EXPECT_EQ(made.notes.at("empty_documents"), 1);
}
TEST(RetrievalImport, KeepsBytesThatAreNoUtf8) {
  EXPECT_EQ(first_of(import_eval("1\ta\tb\t\xff\xc3\tq\n").splits[1], 0), "\xff\xc3");
}
TEST(RetrievalImport, DropsTheRemainderOfValAndTestOnlyWhenAsked) {
  std::string rows;
  for (int i = 0; i < 70; ++i) rows += fmt::format("1\ta\tb\tp{}\tq\n", i);
  Options options;
  options.drop_remainder = true;
  const MemorySink made = import_eval(rows, options);
  EXPECT_EQ(made.splits[0].size(), 2);
  EXPECT_EQ(made.splits[1].size(), 64);
  EXPECT_EQ(made.splits[2].size(), 0);
  EXPECT_EQ(first_of(made.splits[1], 63), "p63");
}
TEST(RetrievalImport, PrefersTheInnerCopyOfAnArchive) {
  if (!archives_supported()) GTEST_SKIP() << "this build reads no archives";
  TarBuilder tar;
  for (const char* copy : {"lra_release/tsv_data/", "lra_release/lra_release/tsv_data/"}) {
    const bool inner = std::string_view(copy).starts_with("lra_release/lra_release");
    for (const char* split : {"test", "eval", "train"}) {
      tar.file(fmt::format("{}new_aan_pairs.{}.tsv", copy, split), inner ? kGood : "damaged");
    }
  }
  const TempDir folder;
  EXPECT_EQ(import_from(folder.write("lra_release.gz", pack(tar.bytes(), Packing::kGzip))).splits[0].size(),
            2);
}
TEST(RetrievalImport, NamesTheLineOfABadLabel) {
  EXPECT_TRUE(says(complaint("1\ta\tb\tp\tq\n2.0\ta\tb\tp\tq\n"), "eval.tsv line 2: the label '2.0'"));
  EXPECT_TRUE(says(complaint("yes\ta\tb\tp\tq\n"), "line 1: the label 'yes' is neither 0 nor 1"));
}
TEST(RetrievalImport, NamesTheLineThatWasCut) {
  EXPECT_TRUE(says(complaint("1\ta\tb\tp\tq\n1\ta\tb"), "line 2: 3 fields separated by tabs, expected 5"));
}
TEST(RetrievalImport, RefusesAMissingSplitAndAnEmptyOne) {
  const TempDir folder;
  publish(folder.path());
  fs::remove(folder / "new_aan_pairs.test.tsv");
  EXPECT_TRUE(says(error_text([&] { import_from(folder.path()); }), "new_aan_pairs.test.tsv is missing"));
  EXPECT_TRUE(says(complaint(""), "there are no examples"));
}

TEST(RetrievalTiny, AsksAboutTheSubjectOfBothDocuments) {
  MemorySink made;
  generate(Options(), {200, 20, 20}, 0, made);
  EXPECT_EQ(made.splits[0].size(), 200);
  EXPECT_NE(first_of(made.splits[0], 0), second_of(made.splits[0], 0));
}

}  // namespace
}  // namespace lra::retrieval
