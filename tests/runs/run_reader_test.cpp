#include "runs/run_reader.h"

#include <gtest/gtest.h>

#include "report/run_fixture.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

using testing::Test;

class RunReaderTest : public Test {
 protected:
  void SetUp() override { write_fixture_run(run_, {}); }
  std::string error() const {
    return error_text([&] { read_run(run_); });
  }
  // The error that result.json gives with one of its members replaced.
  std::string error_with(const char* pointer, const Json& value) const {
    Json result = fixture_result({});
    result[nlohmann::json_pointer<std::string>(pointer)] = value;
    put_text(run_ / "result.json", result.dump());
    return error();
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
  }

  TempDir folder_;
  const fs::path run_ = folder_ / "transformer-listops-lra-s0";
};

TEST_F(RunReaderTest, ReadsBackWhatAFinishedRunWrote) {
  const RunRecord run = read_run(run_);
  ASSERT_TRUE(run.result);
  EXPECT_EQ(run.name, "transformer-listops-lra-s0");
  EXPECT_EQ(run.model, "transformer");
  EXPECT_EQ(run.seed, "0");
  EXPECT_DOUBLE_EQ(*run.result->best->test_accuracy, 0.3685);
  EXPECT_EQ(run.result->last->test_examples, 2000);
  EXPECT_DOUBLE_EQ(run.result->published->percent, 36.37);
  EXPECT_EQ(run.result->published->source, "Tay et al. 2021, table 1");
  ASSERT_EQ(run.result->baselines.size(), 2u);
  EXPECT_DOUBLE_EQ(run.result->baselines[1].accuracy, 0.361);
  ASSERT_EQ(run.result->groups.size(), 4u);
  EXPECT_EQ(run.result->groups[0].name, "MIN");
  EXPECT_EQ(run.result->groups[0].examples, 500);
  EXPECT_EQ(run.metrics.size(), 250u + 10u);
  EXPECT_FALSE(run.metrics[0].accuracy);
  EXPECT_TRUE(run.notes.empty());
}

TEST_F(RunReaderTest, JoinsTheCommandSoThatAShellReadsTheSameWords) {
  EXPECT_EQ(read_run(run_).env_value("command"),
            "lra train transformer listops --protocol lra --set 'train.note=two words'");
  put_text(run_ / "env.json", R"({"command": ["a", "it's", ""]})");
  EXPECT_EQ(read_run(run_).env_value("command"), R"(a 'it'\''s' '')");
}

TEST_F(RunReaderTest, AnUnfinishedRunIsNamedFromItsConfigurationAndMarked) {
  fs::remove(run_ / "result.json");
  const RunRecord run = read_run(run_);
  EXPECT_FALSE(run.result);
  EXPECT_EQ(run.model, "transformer");
  EXPECT_EQ(run.task, "listops");
  EXPECT_EQ(run.protocol, "lra");
  ASSERT_EQ(run.notes.size(), 1u);
  EXPECT_TRUE(contains(run.notes[0], "has not finished")) << run.notes[0];
}

TEST_F(RunReaderTest, ALastLineCutByAKillIsANoteAtEveryPossibleCut) {
  const std::string line = R"({"step": 1, "split": "train", "loss": 2.5})";
  for (size_t kept = 1; kept < line.size(); ++kept) {
    put_text(run_ / "metrics.jsonl", line + "\n" + line.substr(0, kept));
    const RunRecord run = read_run(run_);
    EXPECT_EQ(run.metrics.size(), 1u);
    ASSERT_EQ(run.notes.size(), 1u) << kept;
    EXPECT_TRUE(contains(run.notes[0], "metrics.jsonl line 2 is cut")) << run.notes[0];
  }
}

TEST_F(RunReaderTest, ADamagedLineInTheMiddleIsAnErrorNamingTheLine) {
  const std::string line = R"({"step": 1, "split": "train", "loss": 2.5})";
  put_text(run_ / "metrics.jsonl", line + "\n{\"step\": 2, \"spl\n" + line + "\n");
  EXPECT_TRUE(contains(error(), "metrics.jsonl line 2")) << error();
}

TEST_F(RunReaderTest, StepsWrittenAgainAfterAResumeReplaceTheFirstOnes) {
  std::string lines;
  for (const auto& [step, loss] : {std::pair{1, 5.0}, {2, 4.0}, {3, 3.0}, {2, 2.0}}) {
    lines += fmt::format("{{\"step\": {}, \"split\": \"train\", \"loss\": {}}}\n", step, loss);
    if (step == 1) lines += "{\"step\": 9, \"split\": \"val\", \"loss\": 1}\n";
  }
  put_text(run_ / "metrics.jsonl", lines);
  const RunRecord run = read_run(run_);
  ASSERT_EQ(run.metrics.size(), 3u);
  EXPECT_EQ(run.metrics[1].split, "val");
  EXPECT_EQ(run.metrics[2].step, 2);
  EXPECT_DOUBLE_EQ(*run.metrics[2].loss, 2.0);
}

TEST_F(RunReaderTest, ALossThatWasNotFiniteIsMissing) {
  put_text(run_ / "metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": null}\n");
  EXPECT_FALSE(read_run(run_).metrics.at(0).loss);
}

TEST_F(RunReaderTest, WrongTypesAndRangesInTheResultAreErrorsNamingTheKey) {
  const std::pair<const char*, Json> bad[] = {{"/task", 5},
                                              {"/model", nullptr},
                                              {"/seed", -1},
                                              {"/seed", "zero"},
                                              {"/parameters", 1.5},
                                              {"/steps", 1e300},
                                              {"/best", 3},
                                              {"/best/test_accuracy", 36.4},
                                              {"/best/step", "4000"},
                                              {"/last/test_examples", -5},
                                              {"/groups", {1, 2}},
                                              {"/groups/MIN/correct", 501},
                                              {"/baselines", "none"},
                                              {"/baselines/0/accuracy", 17},
                                              {"/published/value", 500},
                                              {"/wall_seconds", "long"},
                                              {"/published", "36.37"},
                                              {"/departures", "none"},
                                              {"/departures", {{"model.layers", 6}}},
                                              {"/departures", {{"model.layers", {6, 1, 2}}}},
                                              {"/departures", {{"model.layers", {6, {1}}}}}};
  for (const auto& [pointer, value] : bad) {
    const std::string message = error_with(pointer, value);
    const std::string key = std::string(pointer).substr(1, std::string(pointer + 1).find('/'));
    EXPECT_TRUE(contains(message, "result.json") && contains(message, key)) << pointer << ": " << message;
  }
}

TEST_F(RunReaderTest, ANumberTooLargeForAnyTypeIsAnErrorNotACrash) {
  put_text(run_ / "result.json", R"({"task": "listops", "seed": 1e999})");
  EXPECT_TRUE(contains(error(), "result.json")) << error();
  put_text(run_ / "result.json", R"({"seed": 99999999999999999999999})");
  EXPECT_TRUE(contains(error(), "result.json")) << error();
}

TEST_F(RunReaderTest, AnySeedOf64BitsIsRead) {
  EXPECT_EQ(error_with("/seed", UINT64_MAX), "");
  EXPECT_EQ(read_run(run_).seed, "18446744073709551615");
}

TEST_F(RunReaderTest, UnknownKeysArePassedOverAndOptionalOnesMayBeMissing) {
  EXPECT_EQ(error_with("/of_the_future", {{"a", 1}}), "");
  Json result = fixture_result({});
  for (const char* key : {"groups", "baselines", "stop_reason", "published", "last"}) result.erase(key);
  put_text(run_ / "result.json", result.dump());
  const RunRecord run = read_run(run_);
  EXPECT_FALSE(run.result->published);
  EXPECT_FALSE(run.result->last);
  EXPECT_TRUE(run.result->groups.empty());
}

TEST_F(RunReaderTest, DeparturesFromThePresetAreReadBack) {
  EXPECT_TRUE(read_run(run_).result->departures.empty());
  EXPECT_EQ(error_with("/departures", {{"model.layers", {6, 1}}, {"train.clip", {nullptr, 0.5}}}), "");
  EXPECT_EQ(departures_text(read_run(run_).result->departures),
            "model.layers 1 instead of 6, train.clip 0.5 instead of nothing");
}

TEST_F(RunReaderTest, ABrokenResultSaysHowToGetItAgain) {
  put_text(run_ / "result.json", "{");
  EXPECT_TRUE(contains(error(), "Remove the file: 'lra train --run " + run_.string() + " --resume'"))
      << error();
}

TEST_F(RunReaderTest, NoTruncationOfAResultPassesAsAResult) {
  put_text(run_ / "metrics.jsonl", "");
  const std::string whole = read_text(run_ / "result.json");
  for (size_t size = 0; size + 2 < whole.size(); size += 5) {
    put_text(run_ / "result.json", whole.substr(0, size));
    EXPECT_TRUE(contains(error(), "result.json")) << "cut at " << size;
  }
}

TEST_F(RunReaderTest, AFlippedBitInAnyFileIsReadOrIsAnErrorNamingTheFile) {
  put_text(run_ / "metrics.jsonl",
           "{\"step\": 1, \"split\": \"train\", \"loss\": 2.5}\n{\"step\": 2, \"split\": \"val\"}\n");
  Rng rng(7, stream_id("bit flips"));
  for (const char* file : {"result.json", "env.json", "metrics.jsonl", "config.yaml"}) {
    const std::string whole = read_text(run_ / file);
    for (int i = 0; i < 150; ++i) {
      std::string damaged = whole;
      damaged[rng.below(static_cast<uint32_t>(whole.size()))] ^= static_cast<char>(1 << rng.below(8));
      put_text(run_ / file, damaged);
      const std::string message = error();  // anything else thrown ends the test
      EXPECT_TRUE(message.empty() || contains(message, file)) << message;
    }
    put_text(run_ / file, whole);
  }
}

TEST_F(RunReaderTest, AFolderThatIsNoRunIsAnErrorSayingWhatIsMissing) {
  EXPECT_TRUE(contains(error_text([&] { read_run(folder_ / "nothing"); }), "config.yaml"));
  fs::create_directories(folder_ / "empty");
  EXPECT_TRUE(contains(error_text([&] { find_run((folder_ / "empty").string(), folder_.path()); }),
                       "a folder without a config.yaml"));
}

TEST_F(RunReaderTest, ARunIsFoundByItsNameUnderTheRunsAndANearNameIsSuggested) {
  EXPECT_EQ(find_run("transformer-listops-lra-s0", folder_.path()), run_);
  EXPECT_EQ(find_run(run_.string(), "elsewhere"), run_);
  const std::string message = error_text([&] { find_run("transformer-listops-lra-s1", folder_.path()); });
  EXPECT_TRUE(contains(message, "Did you mean 'transformer-listops-lra-s0'")) << message;
}

TEST_F(RunReaderTest, PredictionsComeBackByIndex) {
  fs::create_directories(run_ / "predictions");
  put_text(run_ / "predictions" / "test.jsonl",
           "{\"index\": 1, \"label\": 4, \"prediction\": 5, \"logits\": [0, 1]}\n"
           "{\"index\": 0, \"label\": 2, \"prediction\": 2, \"logits\": [0, 1]}\n");
  const PredictionsRecord predictions = read_predictions(run_, "test");
  ASSERT_EQ(predictions.rows.size(), 2u);
  EXPECT_EQ(predictions.rows[0].label, 2);
  EXPECT_EQ(predictions.rows[1].prediction, 5);
  EXPECT_EQ(read_run(run_).predictions, std::vector<std::string>{"test"});
}

TEST_F(RunReaderTest, DamagedPredictionsAreErrors) {
  const auto message = [&](const std::string& text) {
    fs::create_directories(run_ / "predictions");
    put_text(run_ / "predictions" / "test.jsonl", text);
    return error_text([&] { read_predictions(run_, "test"); });
  };
  const std::string line = R"({"index": 0, "label": 2, "prediction": 2})";
  EXPECT_TRUE(contains(message(line + "\n" + line + "\n"), "index 0 appears twice"));
  EXPECT_TRUE(contains(message(line + "\n" + line.substr(0, 20)), "test.jsonl line 2"));
  EXPECT_TRUE(contains(message(R"({"index": 0, "label": 2})"), "'prediction' is missing"));
  EXPECT_TRUE(contains(message("[]"), "expected an object"));
  EXPECT_TRUE(contains(error_text([&] { read_predictions(run_, "val"); }), "--predictions"));
}

}  // namespace
}  // namespace lra
