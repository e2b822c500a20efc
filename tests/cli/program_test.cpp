// What the program answers to mistakes and to questions.
#include "support/program.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

class ProgramTest : public testing::Test {
 protected:
  Outcome lra(const std::vector<std::string>& arguments) const { return run_lra(arguments, dir_.path()); }
  TempDir dir_;
};

TEST_F(ProgramTest, EveryVerbHasHelp) {
  for (const char* verb :
       {"tasks", "models", "data", "train", "eval", "bench", "report", "compare", "doctor"}) {
    const Outcome o = lra({verb, "--help"});
    EXPECT_EQ(o.exit_code, 0) << verb;
    EXPECT_NE(o.out.find("--help"), std::string::npos) << verb;
  }
}

TEST_F(ProgramTest, MistakesExitWithOneAndSayTheNearestName) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"trian"}, "'train'"},
      {{"trian", "--help"}, "'train'"},
      {{"--json", "tasks"}, "lra tasks --json"},
      {{"data", "make", "listops", "--seed", "-1"}, "from 0 on"},
      {{"train", "transformer", "text"}, "lra data import text FROM"},
      {{"train", "transformr", "listops"}, "transformer"},
      {{"train", "transformer", "listop"}, "listops"},
      {{"train", "transformer", "listops", "--protcol", "tiny"}, "--protocol"},
      {{"train", "transformer", "listops", "--protocol", "tini"}, "tiny"},
      {{"train", "transformer", "listops", "--set", "train.stesp=3"}, "steps"},
      {{"train", "transformer", "listops", "--device", "gpu"}, "cuda"},
      {{"models", "transfomer"}, "transformer"},
      {{"tasks", "lisops"}, "listops"},
      {{"data", "make", "lisops"}, "listops"},
      {{"eval", "no-such-run"}, "no-such-run"},
      {{"bench", "--suite", "fundation"}, "foundation"},
      {{"train", "transformer", "listops"}, "lra data make listops"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome o = lra(arguments);
    EXPECT_EQ(o.exit_code, 1) << o.err;
    EXPECT_TRUE(o.err.starts_with("lra: [")) << o.err;
    EXPECT_NE(o.err.find(expected), std::string::npos) << o.err;
    EXPECT_TRUE(o.out.empty()) << o.out;
  }
}

TEST_F(ProgramTest, JsonIsOneDocumentAndNothingElse) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"tasks", "--json"},
           {"models", "--json"},
           {"models", "transformer", "--json"},
           {"tasks", "listops", "--json"},
           {"doctor", "--json"},
           {"data", "list", "--json"},
           {"train", "transformer", "listops", "--protocol", "tiny", "--dry-run", "--json"}}) {
    const Outcome o = lra(arguments);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_NO_THROW(parse_json(o.out, "stdout")) << o.out;
  }
}

TEST_F(ProgramTest, DryRunPrintsTheConfigurationAndTheParameterCount) {
  const Outcome o = lra({"train", "transformer", "listops", "--protocol", "lra-code", "--dry-run"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("ff_width: 1024"), std::string::npos);
  EXPECT_NE(o.err.find("8948746"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_.path() / "runs"));
}

TEST_F(ProgramTest, OneOpenMpRuntimeIsLoaded) {
  const Json d = parse_json(lra({"doctor", "--json"}).out, "stdout");
  EXPECT_EQ(d["openmp_runtimes"].size(), 1u) << d["openmp_runtimes"].dump();
}

TEST_F(ProgramTest, BenchMeasuresAModel) {
  const Outcome o =
      lra({"bench", "--lengths", "16", "--batches", "2", "--phase", "forward,train", "--set",
           "model.width=16", "--set", "model.qkv_width=16", "--repeats", "3", "--seconds", "0.1", "--json"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const Json rows = parse_json(o.out, "stdout")["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const char* key : {"model", "length", "batch", "dtype", "device", "phase", "ms_median", "ms_p10",
                          "ms_p90", "tokens_per_s", "peak_bytes", "implementation", "ratio_to_lra"}) {
    EXPECT_TRUE(rows[0].contains(key)) << key;
  }
}

}  // namespace
}  // namespace lra
