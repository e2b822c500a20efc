// lra bench as people call it.
// label: slow
#include <chrono>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

class BenchTest : public testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  Outcome bench(Arguments arguments) const {
    arguments.insert(arguments.begin(), {"bench", "--device", "cpu"});
    return run_lra(arguments, dir_.path());
  }
  // With sizes and a time that make a case a matter of a moment.
  Arguments small(Arguments arguments) const {
    for (const char* more : {"--batches", "1", "--set", "model.width=16", "--set", "model.qkv_width=16",
                             "--set", "model.layers=1", "--repeats", "3", "--seconds", "0.01"})
      arguments.emplace_back(more);
    return arguments;
  }
  Json rows(Arguments arguments) const {
    arguments.emplace_back("--json");
    const Outcome o = bench(small(arguments));
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return parse_json(o.out, "stdout")["rows"];
  }
  // A mistake that is said before anything is measured.
  void expect_refused(const Arguments& arguments, const std::vector<std::string>& expected) const {
    const Outcome o = bench(arguments);
    EXPECT_EQ(o.exit_code, 1) << o.err;
    EXPECT_EQ(o.err.find(" batch "), std::string::npos) << o.err;
    for (const auto& text : expected) EXPECT_NE(o.err.find(text), std::string::npos) << text << "\n" << o.err;
  }

  TempDir dir_;
};

TEST_F(BenchTest, PeakMemoryDoesNotDependOnWhatWasMeasuredBefore) {
  constexpr double kTwentyMegabytes = 20e6;
  const double alone = rows({"--lengths", "16"})[0]["peak_bytes"];
  const Json both = rows({"--lengths", "65536,16"});
  ASSERT_GT(both[0]["peak_bytes"].get<double>(), alone + 2 * kTwentyMegabytes);  // else it shows nothing
  EXPECT_NEAR(both[1]["peak_bytes"].get<double>(), alone, kTwentyMegabytes);
}

TEST_F(BenchTest, EveryModelIsKnownBeforeTheFirstIsMeasured) {
  expect_refused({"--models", "linear,preformer"}, {"preformer", "Did you mean"});
}

TEST_F(BenchTest, OfTheKernelsOnlyThoseAskedForAreMeasured) {
  expect_refused({"--kernels", "--case", "attenton"}, {"attenton", "Did you mean 'attention'"});
  const Outcome o = bench({"--kernels", "--case", "pool,adamw", "--lengths", "16", "--batches", "1",
                           "--seconds", "0.001", "--json"});
  const Json found = parse_json(o.out, "stdout");
  std::set<std::string> kernels;
  for (const Json& row : found["kernels"]) kernels.insert(row["kernel"]);
  EXPECT_EQ(kernels, (std::set<std::string>{"copy", "pool", "adamw"})) << o.err;
}

TEST_F(BenchTest, WhatAModelDoesNotHaveIsSaidBeforeTheFirstIsMeasured) {
  expect_refused(
      {"--models", "linear,linformer", "--set", "model.causal=true", "--set", "model.pooling=mean"},
      {"linformer has no causal form"});
}

TEST_F(BenchTest, BlanksAroundCommasMeanNothing) {
  EXPECT_EQ(rows({"--models", "linear, local", "--lengths", "16 ,17"}).size(), 4u);
}

TEST_F(BenchTest, AllWithOtherNamesIsAll) {
  EXPECT_EQ(rows({"--models", "all,linear", "--lengths", "16"}).size(),
            rows({"--models", "all", "--lengths", "16"}).size());
}

TEST_F(BenchTest, AFileThatCannotBeWrittenIsSaidBeforeMeasuring) {
  dir_.write("file", "");
  expect_refused({"-o", "."}, {"folder"});
  expect_refused({"-o", "file/out.json"}, {"file"});
}

TEST_F(BenchTest, InterruptedItShowsWhatItHasMeasuredAndWhereItIsKept) {
  Process process({LRA_PROGRAM, "bench", "--device", "cpu", "--lengths", "16,17,18", "--batches", "1",
                   "--seconds", "3", "--repeats", "1000000", "-o", "out.json"},
                  dir_.path());
  const auto began = std::chrono::steady_clock::now();
  while (!fs::exists(dir_ / "out.json") &&
         std::chrono::steady_clock::now() - began < std::chrono::seconds(100)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  process.signal(SIGINT);
  const Outcome o = process.wait();
  EXPECT_EQ(o.exit_code, 130) << o.err;
  EXPECT_NE(o.out.find("transformer  16"), std::string::npos) << o.out;
  EXPECT_NE(o.err.find("out.json"), std::string::npos) << o.err;
}

TEST_F(BenchTest, OptionsThatWouldChangeNothingAreRefused) {
  for (const auto& [arguments, names] : std::vector<std::pair<Arguments, Arguments>>{
           {{"--case", "tiny"}, {"--case", "--suite"}},
           {{"--suite", "foundation", "--models", "linear"}, {"--suite", "--models"}},
           {{"--suite", "foundation", "--lengths", "16"}, {"--suite", "--lengths"}},
           {{"--suite", "foundation", "--set", "model.width=8"}, {"--suite", "--set"}},
           {{"--datasets", "--kernels"}, {"--datasets", "--kernels"}},
           {{"--kernels", "--max-batch"}, {"--kernels", "--max-batch"}},
           {{"--max-batch", "--batches", "4"}, {"--max-batch", "--batches"}},
           {{"--kernel-width", "64"}, {"--kernel-width", "--kernels"}},
           {{"--train-on", "x.safetensors", "--lengths", "16"}, {"--train-on", "--lengths"}},
           {{"--python", "python3"}, {"--python", "--peers"}}}) {
    expect_refused(arguments, names);
  }
}

TEST_F(BenchTest, OptionsOfModelsReachThem) {
  expect_refused({"--models", "reformer", "--set", "reformer.out_proj=false", "--set", "model.qkv_width=128"},
                 {"must equal model.width"});
}

TEST_F(BenchTest, ARowSaysWhatWasSetOfItsModel) {
  const Json found = rows({"--models", "linear,performer", "--lengths", "16", "--set", "performer.features=8",
                           "--set", "performer.kernel=relu"});
  EXPECT_FALSE(found[0]["set"].contains("performer.features")) << found[0]["set"];
  EXPECT_EQ(found[1]["set"]["performer.features"], 8);
  EXPECT_EQ(found[1]["set"]["performer.kernel"], "relu");
}

TEST_F(BenchTest, SecondsAreAboveZero) {
  for (const char* seconds : {"0", "-1", "nan", "soon"}) {
    expect_refused({fmt::format("--seconds={}", seconds)}, {"must be a number above 0, found "});
  }
}

TEST_F(BenchTest, AWrongCaseIsAnsweredWithEachNameOnce) {
  expect_refused({"--suite", "foundation", "--case", "tiny,tinny"}, {"Known: tiny, text, listops."});
}

TEST_F(BenchTest, WithoutPeersThereIsNothingToMeasureThemBeside) {
  expect_refused({"--peers"}, {"no folder bench/peers"});
}

TEST_F(BenchTest, TheTableSaysThatRowsHaveTheLengthsOfExamples) {
  ASSERT_EQ(run_lra({"data", "make", "listops", "--size", "tiny"}, dir_.path()).exit_code, 0);
  const Outcome o = bench(small({"--train-on", "data/listops/tiny/train.safetensors"}));
  EXPECT_NE(o.out.find("lengths of the examples"), std::string::npos) << o.out << o.err;
}

}  // namespace
}  // namespace lra
