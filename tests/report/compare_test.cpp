#include "report/compare.h"

#include <gtest/gtest.h>

#include "report/run_fixture.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

class CompareTest : public testing::Test {
 protected:
  void SetUp() override {
    write_fixture_run(a_, {});
    other_.model = "longformer";
    other_.seed = 3;
    write_fixture_run(b_, other_);
  }
  // 10 examples: 4 both, 3 only A, 1 only B, 2 neither.
  void write_ten() {
    write_fixture_predictions(a_, {1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
    write_fixture_predictions(b_, {1, 1, 1, 1, 0, 0, 0, 1, 0, 0});
  }

  TempDir folder_;
  const fs::path a_ = folder_ / "a", b_ = folder_ / "b";
  RunFixture other_;
};

TEST_F(CompareTest, ListsWhatDiffersInTheConfigurationsByDottedKey) {
  put_text(b_ / "config.yaml", read_text(b_ / "config.yaml") + "  extra: 7\n");
  const Comparison c = compare_runs(a_, b_);
  ASSERT_EQ(c.differences.size(), 3u);
  EXPECT_EQ(c.differences[0].key, "model.name");
  EXPECT_EQ(c.differences[0].a, "transformer");
  EXPECT_EQ(c.differences[0].b, "longformer");
  EXPECT_EQ(c.differences[1].key, "seed");
  EXPECT_EQ(c.differences[2].key, "train.extra");
  EXPECT_EQ(c.differences[2].a, std::nullopt);
  EXPECT_EQ(c.differences[2].b, "7");
}

TEST_F(CompareTest, CountsThePairsAndTestsThem) {
  write_ten();
  const Comparison c = compare_runs(a_, b_);
  ASSERT_TRUE(c.paired) << c.unpaired_because;
  EXPECT_EQ(c.paired->counts.both, 4);
  EXPECT_EQ(c.paired->counts.only_a, 3);
  EXPECT_EQ(c.paired->counts.only_b, 1);
  EXPECT_EQ(c.paired->counts.neither, 2);
  EXPECT_DOUBLE_EQ(c.paired->difference, 0.2);
  EXPECT_NEAR(c.paired->p, 2.0 * (1 + 4) / 16, 1e-12);
  EXPECT_TRUE(contains(comparison_text(c), "p = 0.625 ")) << comparison_text(c);
  EXPECT_TRUE(contains(comparison_text(c), "A - B = +20.00 points"));
  EXPECT_EQ(comparison_json(c)["paired"]["only_a"], 3);
}

TEST_F(CompareTest, PredictionsThatDoNotFitTheResultAreNoted) {
  write_ten();
  const Comparison c = compare_runs(a_, b_);
  ASSERT_EQ(c.notes.size(), 2u);
  EXPECT_TRUE(contains(c.notes[0], "give 70.00 %, its result says 36.85 %")) << c.notes[0];
}

TEST_F(CompareTest, MissingPredictionsAreNamedWithTheCommandThatWritesThem) {
  write_fixture_predictions(a_, {true});
  const Comparison c = compare_runs(a_, b_);
  EXPECT_FALSE(c.paired);
  EXPECT_TRUE(contains(c.unpaired_because, "lra eval " + b_.string() + " --predictions"))
      << c.unpaired_because;
  EXPECT_FALSE(contains(c.unpaired_because, "lra eval " + a_.string() + " "));
  EXPECT_TRUE(contains(comparison_text(c), c.unpaired_because));
  EXPECT_TRUE(comparison_json(c)["paired"].is_null());
}

TEST_F(CompareTest, RunsOnDifferentDataAreNotPaired) {
  other_.data_sha256 = std::string(64, 'e');
  write_fixture_run(b_, other_);
  write_ten();
  EXPECT_TRUE(contains(compare_runs(a_, b_).unpaired_because, "different data"));
}

TEST_F(CompareTest, UnfinishedRunsAndDifferentProtocolsAreSaid) {
  other_.protocol = "tiny";
  other_.finished = false;
  fs::remove_all(b_);
  write_fixture_run(b_, other_);
  const Comparison c = compare_runs(a_, b_);
  EXPECT_TRUE(contains(c.unpaired_because, "b has not finished"));
  ASSERT_FALSE(c.notes.empty());
  EXPECT_TRUE(contains(c.notes[0], "different protocols, lra and tiny"));
}

TEST_F(CompareTest, ARunThatDepartsFromItsPresetIsNotSetBesideThePublishedNumber) {
  other_.departures = {{"model.layers", {6, 1}}};
  write_fixture_run(b_, other_);
  const Comparison c = compare_runs(a_, b_);
  const std::string text = comparison_text(c);
  EXPECT_TRUE(contains(text, "note: b departs from the preset of protocol lra (model.layers 1 instead of 6)"))
      << text;
  EXPECT_TRUE(contains(text, "  not comparable\n")) << text;
  EXPECT_FALSE(contains(text, "note: a departs"));
  EXPECT_EQ(comparison_json(c)["b"]["departures"].dump(), R"({"model.layers":[6,1]})");
  EXPECT_FALSE(comparison_json(c)["a"].contains("departures"));
}

TEST_F(CompareTest, DifferentNumbersOfStepsAreNoted) {
  other_.steps = 400;
  write_fixture_run(b_, other_);
  const Comparison c = compare_runs(a_, b_);
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_TRUE(contains(c.notes[0], "different numbers of steps, 5000 and 400")) << c.notes[0];
}

TEST_F(CompareTest, ASeedIsANumberWhetherARunHasFinishedOrNot) {
  other_.finished = false;
  fs::remove_all(b_);
  write_fixture_run(b_, other_);
  const Json json = comparison_json(compare_runs(a_, b_));
  EXPECT_EQ(json["a"]["seed"], 0);
  EXPECT_EQ(json["b"]["seed"], 3);
}

TEST_F(CompareTest, PredictionsThatDisagreeAboutTheDataAreAnError) {
  write_fixture_predictions(a_, {1, 1, 1});
  write_fixture_predictions(b_, {1, 1});
  EXPECT_TRUE(contains(error_text([&] { compare_runs(a_, b_); }),
                       "a has 3 predictions on the test split and b has 2"));
  put_text(b_ / "predictions" / "test.jsonl",
           "{\"index\": 0, \"label\": 9, \"prediction\": 9, \"checkpoint\": \"best\"}\n");
  EXPECT_TRUE(contains(error_text([&] { compare_runs(a_, b_); }), "with label 9"));
}

TEST_F(CompareTest, ARunEqualsItself) {
  write_fixture_predictions(a_, {1, 0, 1});
  const Comparison c = compare_runs(a_, a_);
  EXPECT_TRUE(c.differences.empty());
  ASSERT_FALSE(c.notes.empty());
  EXPECT_EQ(c.notes[0], "A and B are the same run.");
  ASSERT_TRUE(c.paired);
  EXPECT_EQ(c.paired->p, 1.0);
  EXPECT_TRUE(contains(comparison_text(c), "the same in every key"));
}

}  // namespace
}  // namespace lra
