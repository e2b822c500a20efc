#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/temp_dir.h"
#include "tasks/listops.h"

namespace lra::listops {
namespace {

MemorySink make(const Options& options, const SplitCounts& counts, uint64_t seed = 0) {
  set_log_level(LogLevel::kQuiet);
  MemorySink made;
  made.notes = find_task("listops").make(options, counts, seed, made);
  return made;
}

std::string fingerprint(const MemorySink& made) {
  Sha256 hash;
  for (const Examples& split : made.splits) {
    hash.update(split.tokens.data(), split.tokens.size() * sizeof(uint16_t));
    hash.update(split.offsets.data(), split.offsets.size() * sizeof(int64_t));
    hash.update(split.labels.data(), split.labels.size() * sizeof(int64_t));
  }
  return hash.hex();
}

Options tiny() {
  Options options;
  options.max_depth = 3;
  options.max_args = 4;
  options.min_length = 4;
  options.max_length = 24;
  return options;
}

std::span<const uint16_t> sequence(const Examples& examples, size_t i) {
  return std::span(examples.tokens)
      .subspan(static_cast<size_t>(examples.offsets[i]),
               static_cast<size_t>(examples.offsets[i + 1] - examples.offsets[i]));
}

TEST(ListOpsGenerator, GivesTheSameBitsForAnyNumberOfThreads) {
  std::set<std::string> seen;
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    seen.insert(fingerprint(make(Options(), {3000, 100, 100})));
  }
  set_thread_count(0);
  EXPECT_EQ(seen.size(), 1u);
}

// Fixed when the generator was written: another value means other data under the same version.
TEST(ListOpsGenerator, GivesTheBitsOfVersionOne) {
  ASSERT_EQ(find_task("listops").info().version, "1");
  EXPECT_EQ(fingerprint(make(Options(), {100, 10, 10})),
            "8333dc11693bc469e382e854da1907b993e83f018871912d3941402a95845076");
  EXPECT_EQ(fingerprint(make(tiny(), {100, 10, 10}, 3)),
            "3bbd7d44f6d2554010f366a5e3780a88b7e7ebeffeb5cb47307de1c6c4ece8a4");
}

TEST(ListOpsGenerator, GivesOtherTreesForAnotherSeed) {
  EXPECT_NE(fingerprint(make(tiny(), {50, 5, 5}, 0)), fingerprint(make(tiny(), {50, 5, 5}, 1)));
}

TEST(ListOpsGenerator, StartsWithTheSameTreesWhateverTheCount) {
  const MemorySink few = make(tiny(), {50, 5, 5}), many = make(tiny(), {500, 50, 50});
  EXPECT_TRUE(
      std::equal(few.splits[0].tokens.begin(), few.splits[0].tokens.end(), many.splits[0].tokens.begin()));
}

TEST(ListOpsGenerator, MakesNoTreeTwice) {
  const MemorySink made = make(tiny(), {20'000, 1'000, 2'000});
  std::set<std::vector<uint16_t>> seen;
  int64_t total = 0;
  for (const Examples& split : made.splits) {
    total += split.size();
    for (size_t i = 0; i < split.labels.size(); ++i) {
      const auto tokens = sequence(split, i);
      seen.emplace(tokens.begin(), tokens.end());
    }
  }
  EXPECT_GT(made.notes.at("duplicates").get<int64_t>(), 0);  // short trees do come again
  EXPECT_EQ(static_cast<int64_t>(seen.size()), total);
}

TEST(ListOpsGenerator, KeepsItsLimits) {
  const MemorySink made = make(tiny(), {5'000, 10, 10});
  Evaluator evaluator;
  for (size_t i = 0; i < made.splits[0].labels.size(); ++i) {
    const auto tokens = sequence(made.splits[0], i);
    const Evaluation found = evaluator.evaluate(tokens, {"made", "tree", 0});
    ASSERT_GT(tokens.size(), 4u);
    ASSERT_LT(tokens.size(), 24u);
    ASSERT_LE(found.deepest, 3);
    ASSERT_GE(found.root_arity, 2);
    ASSERT_LE(found.root_arity, 4);
    ASSERT_EQ(found.value, made.splits[0].labels[i]);
  }
}

TEST(ListOpsGenerator, DropsOnlyTheBracketsWhenAsked) {
  Options dropped;
  dropped.brackets = "dropped";
  MemorySink kept = make(Options(), {100, 10, 10});
  const MemorySink without = make(dropped, {100, 10, 10});
  EXPECT_EQ(find_task("listops").info_for(Options()).vocab_size, 17);
  EXPECT_EQ(find_task("listops").info_for(dropped).vocab_size, 16);
  EXPECT_EQ(kept.splits[0].labels, without.splits[0].labels);
  std::erase(kept.splits[0].tokens, kClose);
  EXPECT_EQ(kept.splits[0].tokens, without.splits[0].tokens);
}

TEST(ListOpsGenerator, StopsWhenThereAreTooFewTrees) {
  Options options = tiny();
  options.max_depth = 2;
  options.max_args = 2;  // 400 trees of 4 tokens
  options.min_length = 3;
  EXPECT_TRUE(says(error_text([&] { make(options, {500, 5, 5}); }), "gave only 400 of 510 distinct trees"));
}

TEST(ListOpsGenerator, RefusesLengthsThatExcludeEachOther) {
  Options options;
  options.min_length = 2000;
  EXPECT_TRUE(says(error_text([&] { make(options, {1, 1, 1}); }), "leave no length between them"));
}

// What 100 000 accepted trees of the reference generator show; bounds are five standard deviations for 20 000
// trees.
class ListOpsDistribution : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    set_log_level(LogLevel::kQuiet);
    folder_ = std::make_unique<TempDir>();
    MakeRequest request;
    request.counts = SplitCounts{19'000, 500, 500};
    const Task& task = find_task("listops");
    stats_ = data_stats(task, make_data(task, folder_->path(), request)).json.at("listops");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static inline std::unique_ptr<TempDir> folder_;
  static inline Json stats_;
};

TEST_F(ListOpsDistribution, AcceptsTheKnownShareOfDraws) {
  EXPECT_NEAR(stats_.at("acceptance_rate").get<double>(), 0.0827, 0.0028);
}
TEST_F(ListOpsDistribution, HasTheKnownLengths) {
  const Json& length = stats_.at("length");
  EXPECT_NEAR(length.at("mean").get<double>(), 1035, 15);
  EXPECT_NEAR(length.at("median").get<double>(), 952, 25);
  EXPECT_NEAR(length.at("p10").get<double>(), 577, 10);
  EXPECT_NEAR(length.at("p90").get<double>(), 1642, 25);
  EXPECT_GE(length.at("min").get<int64_t>(), 501);
  EXPECT_LE(length.at("max").get<int64_t>(), 1999);
}
TEST_F(ListOpsDistribution, HasTheKnownLabels) {
  const double expected[] = {.170, .090, .079, .083, .090, .085, .078, .072, .088, .166};
  for (size_t label = 0; label < 10; ++label) {
    EXPECT_NEAR(stats_.at("labels").at("all").at("labels")[label].get<double>(), expected[label], 0.0135)
        << label;
  }
}
TEST_F(ListOpsDistribution, HasTheKnownOperatorsPerToken) {
  EXPECT_NEAR(stats_.at("operators_per_token").get<double>(), 0.1424, 0.0005);
}
TEST_F(ListOpsDistribution, ReachesTheLastLevelInEveryTree) {
  EXPECT_EQ(stats_.at("deepest_level")[10].get<int64_t>(), 20'000);
}
TEST_F(ListOpsDistribution, DrawsTheRootOperatorEvenly) {
  for (const auto name : kOperatorNames) {
    EXPECT_NEAR(stats_.at("labels").at(std::string(name)).at("share").get<double>(), 0.25, 0.0155) << name;
  }
}
TEST_F(ListOpsDistribution, HasTheKnownArityOfTheRoot) {
  const double expected[] = {.045, .064, .084, .101, .116, .131, .143, .153, .164};
  for (int arity = 2; arity <= 10; ++arity) {
    const double found = stats_.at("root_arity").at(std::to_string(arity)).get<double>();
    EXPECT_NEAR(found, expected[arity - 2], 0.0135) << arity;
  }
}
TEST_F(ListOpsDistribution, HasTheKnownModesByRootOperator) {
  const auto mode_share = [&](const char* root, size_t mode) {
    return stats_.at("labels").at(root).at("labels")[mode].get<double>();
  };
  EXPECT_NEAR(mode_share("MIN", 0), 0.564, 0.035);
  EXPECT_NEAR(mode_share("MAX", 9), 0.565, 0.035);
  EXPECT_NEAR(mode_share("MED", 4), 0.214, 0.029);
  EXPECT_NEAR(mode_share("SM", 0), 0.100, 0.022);
}
TEST_F(ListOpsDistribution, ClimbsTheKnownLadder) {
  const double expected[] = {.361, .564, .721, .826, .890, .928, .954, .973, .984};
  for (int levels = 1; levels <= 9; ++levels) {
    const double p = expected[levels - 1], sigma = std::sqrt(p * (1 - p) * (1.0 / 20'000 + 1.0 / 30'000));
    EXPECT_NEAR(stats_.at("ladder").at(std::to_string(levels)).get<double>(), p, 5 * sigma) << levels;
  }
}

}  // namespace
}  // namespace lra::listops
