// The real program: data → train → kill → resume → eval → report.
// label: slow
#include <chrono>
#include <sys/resource.h>
#include <thread>

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/sha256.h"
#include "data/safetensors.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

// A short run: dropout on, two micro-batches, evaluations and checkpoints at steps that do not coincide with
// the log.
const std::vector<std::string> kRun = {"train",
                                       "transformer",
                                       "listops",
                                       "--protocol",
                                       "tiny",
                                       "--threads",
                                       "2",
                                       "--device",
                                       "cpu",
                                       "--set",
                                       "train.steps=90",
                                       "--set",
                                       "train.batch=16",
                                       "--set",
                                       "train.micro_batches=2",
                                       "--set",
                                       "model.dropout=0.1",
                                       "--set",
                                       "model.attention_dropout=0.1",
                                       "--set",
                                       "train.log_every=7",
                                       "--set",
                                       "train.eval_every=25",
                                       "--set",
                                       "train.checkpoint_every=10",
                                       "--set",
                                       "model.width=32",
                                       "--set",
                                       "model.qkv_width=32"};

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

class TrainEndToEndTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempDir;
    const Outcome made = run_lra({"data", "make", "listops", "--size", "tiny", "--count", "600,100,100",
                                  "--variant", "small", "--data", data_->path().string()},
                                 data_->path());
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete data_; }

  Outcome lra(const std::vector<std::string>& arguments) const {
    return run_lra(with(arguments, {"--data", data_->path().string()}), dir_.path());
  }
  Process start(const std::vector<std::string>& arguments) const {
    return Process(with({LRA_PROGRAM}, with(arguments, {"--data", data_->path().string()})), dir_.path());
  }
  std::vector<std::string> run(const std::string& name, const std::vector<std::string>& more = {}) const {
    return with(with(kRun, {"--set", "task.variant=small", "--run", name}), more);
  }
  std::string bytes(const std::string& file) const { return read_text(dir_.path() / file); }
  void until(const fs::path& file) const {
    for (int i = 0; i < 600 && !fs::exists(dir_.path() / file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  // metrics.jsonl without what depends on the clock.
  std::string metrics(const std::string& name) const {
    std::string out;
    std::string text = bytes(name + "/metrics.jsonl");
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      Json line = parse_json(text.substr(at, end - at), "metrics");
      for (const char* key : {"seconds", "examples_per_s", "tokens_per_s", "data_wait"}) line.erase(key);
      out += line.dump() + "\n";
      at = end + 1;
    }
    return out;
  }
  void expect_equal_runs(const std::string& a, const std::string& b) const {
    for (const char* file : {"/checkpoints/last/model.safetensors", "/checkpoints/last/optimizer.safetensors",
                             "/checkpoints/best/model.safetensors"}) {
      EXPECT_TRUE(bytes(a + file) == bytes(b + file)) << file;
    }
    EXPECT_EQ(metrics(a), metrics(b));
    const Json ra = read_json(dir_.path() / a / "result.json"),
               rb = read_json(dir_.path() / b / "result.json");
    for (const char* key : {"best", "last", "groups", "steps", "data_sha256", "parameters"})
      EXPECT_EQ(ra[key], rb[key]) << key;
  }

  static TempDir* data_;
  TempDir dir_;
};
TempDir* TrainEndToEndTest::data_ = nullptr;

TEST_F(TrainEndToEndTest, KilledAgainAndAgainEndsWithTheBitsOfTheUndisturbedRun) {
  ASSERT_EQ(lra(run("calm")).exit_code, 0);
  ASSERT_TRUE(fs::exists(dir_.path() / "calm/result.json"));
  Process first = start(run("killed"));
  until("killed/checkpoints/last");
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait().exit_code, 128 + SIGKILL);
  for (int i = 1; i < 5; ++i) {
    Process next = start({"train", "--run", "killed", "--resume", "--threads", "2"});
    std::this_thread::sleep_for(std::chrono::milliseconds(350 + 170 * i));
    next.signal(SIGKILL);
    next.wait();
  }
  const Outcome last = lra({"train", "--run", "killed", "--resume", "--threads", "2"});
  ASSERT_EQ(last.exit_code, 0) << last.err;
  expect_equal_runs("calm", "killed");
}

TEST_F(TrainEndToEndTest, InterruptedSavesAndExits130AndResumesToTheSameBits) {
  ASSERT_EQ(lra(run("calm")).exit_code, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string name = "stopped" + std::to_string(signal);
    Process process = start(run(name));
    until(name + "/metrics.jsonl");
    process.signal(signal);
    const Outcome outcome = process.wait();
    ASSERT_EQ(outcome.exit_code, 130) << outcome.err;
    EXPECT_NE(outcome.err.find("--resume"), std::string::npos);
    ASSERT_EQ(lra({"train", "--run", name, "--resume", "--threads", "2"}).exit_code, 0);
    expect_equal_runs("calm", name);
  }
}

// Stops where a line is logged and an evaluation is due, so that nothing is done that would not have been.
TEST_F(TrainEndToEndTest, ACappedRunGoesOnToTheBitsOfOneThatWasCappedLaterOrNotAtAll) {
  const auto capped = [&](const std::string& name, const std::string& steps) {
    return run(name, {"--set", "train.log_every=5", "--steps", steps});
  };
  const auto on = [&](const std::string& steps) {
    return lra({"train", "--run", "a", "--resume", "--steps", steps, "--threads", "2"});
  };
  ASSERT_EQ(lra(capped("a", "25")).exit_code, 0);
  for (const char* steps : {"75", "0"}) {
    const std::string calm = std::string("calm") + steps;
    ASSERT_EQ(lra(capped(calm, steps)).exit_code, 0);
    ASSERT_EQ(on(steps).exit_code, 0);
    expect_equal_runs(calm, "a");
    EXPECT_EQ(bytes("a/config.yaml"), bytes(calm + "/config.yaml"));
  }
  const Outcome back = on("75");
  EXPECT_EQ(back.exit_code, 1);
  EXPECT_NE(back.err.find("is at step 90 already"), std::string::npos) << back.err;
  EXPECT_TRUE(fs::exists(dir_.path() / "a/result.json"));
  EXPECT_EQ(read_json(dir_.path() / "a/result.json")["steps"], 90);
}

TEST_F(TrainEndToEndTest, KilledWhileGoingOnACappedRunGoesOnToItsNewEnd) {
  const auto slow = [&](const std::string& name, const std::string& steps) {
    return run(name, {"--set", "train.log_every=5", "--set", "train.steps=900", "--steps", steps});
  };
  ASSERT_EQ(lra(slow("calm", "800")).exit_code, 0);
  ASSERT_EQ(lra(slow("a", "25")).exit_code, 0);
  Process process = start({"train", "--run", "a", "--resume", "--steps", "800", "--threads", "2"});
  for (int i = 0; i < 600 && bytes("a/metrics.jsonl").find("\"step\":50,") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  process.signal(SIGKILL);
  process.wait();
  ASSERT_EQ(lra({"train", "--run", "a", "--resume", "--threads", "2"}).exit_code, 0);
  expect_equal_runs("calm", "a");
}

// state.json had the hash of the whole file before.
TEST_F(TrainEndToEndTest, ACheckpointWithTheHashOfTheWholeConfigurationIsOneToGoOnFrom) {
  ASSERT_EQ(lra(run("a", {"--steps", "25"})).exit_code, 0);
  fs::remove(dir_.path() / "a/result.json");
  const auto with_hash = [&](const std::string& hash) {
    Json state = read_json(dir_.path() / "a/checkpoints/last/state.json");
    state["config_sha256"] = hash;
    write_text(dir_.path() / "a/checkpoints/last/state.json", state.dump());
    return lra({"train", "--run", "a", "--resume", "--threads", "2"});
  };
  EXPECT_EQ(with_hash(sha256_hex("another")).exit_code, 1);
  EXPECT_EQ(with_hash(sha256_hex(bytes("a/config.yaml"))).exit_code, 0);
}

TEST_F(TrainEndToEndTest, ARunSaysWhereItDepartsFromItsPreset) {
  const Outcome o = lra(run("a", {"--steps", "10"}));
  ASSERT_EQ(o.exit_code, 0);
  EXPECT_NE(o.err.find("departs from preset tiny/listops in"), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("model.width 32 instead of 64"), std::string::npos) << o.out;
  const Json result = read_json(dir_.path() / "a/result.json");
  EXPECT_EQ(result["departures"]["model.width"].dump(), "[64,32]");
  EXPECT_EQ(result["departures"]["task.variant"].dump(), R"(["tiny","small"])");
  EXPECT_FALSE(result["departures"].contains("train.micro_batches"));
}

TEST_F(TrainEndToEndTest, FromTheBestCheckpointWhereTheLastIsDamagedAsTheMessageSays) {
  ASSERT_EQ(lra(run("calm")).exit_code, 0);
  fs::copy(dir_.path() / "calm", dir_.path() / "a", fs::copy_options::recursive);
  fs::remove(dir_.path() / "a/result.json");
  fs::resize_file(dir_.path() / "a/checkpoints/last/model.safetensors", 1000);
  const Outcome refused = lra({"train", "--run", "a", "--resume", "--threads", "2"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("remove a/checkpoints/last, then --resume goes on"), std::string::npos)
      << refused.err;
  fs::remove_all(dir_.path() / "a/checkpoints/last");
  ASSERT_EQ(lra({"train", "--run", "a", "--resume", "--threads", "2"}).exit_code, 0);
  expect_equal_runs("calm", "a");
}

TEST_F(TrainEndToEndTest, AnEarlyStopHoldsAfterAResume) {
  const auto early = [&](const std::string& name) {
    return run(name, {"--set", "train.patience=1", "--set", "train.eval_every=5"});
  };
  ASSERT_EQ(lra(early("a")).exit_code, 0);
  const Json result = read_json(dir_.path() / "a/result.json");
  EXPECT_LT(result["steps"].get<int>(), 90);
  ASSERT_EQ(lra(early("b")).exit_code, 0);
  fs::remove(dir_.path() / "b/result.json");  // as if killed during the final test
  ASSERT_EQ(lra({"train", "--run", "b", "--resume", "--threads", "2"}).exit_code, 0);
  expect_equal_runs("a", "b");
}

TEST_F(TrainEndToEndTest, TheResolvedConfigurationRepeatsTheRun) {
  ASSERT_EQ(lra(run("a")).exit_code, 0);
  ASSERT_EQ(lra({"train", "--config", "a/config.yaml", "--run", "b", "--threads", "2"}).exit_code, 0);
  expect_equal_runs("a", "b");
  EXPECT_EQ(bytes("a/config.yaml"), bytes("b/config.yaml"));
}

TEST_F(TrainEndToEndTest, ASecondProcessOnTheSameFolderIsRefused) {
  Process first = start(run("shared"));
  until("shared/metrics.jsonl");
  const Outcome second =
      run_lra({"train", "--run", "shared", "--resume", "--data", data_->path().string()}, data_->path());
  EXPECT_EQ(second.exit_code, 1);
  first.signal(SIGTERM);
  first.wait();
}

TEST_F(TrainEndToEndTest, ARunThatIsThereIsNeverOverwritten) {
  ASSERT_EQ(lra(run("a", {"--steps", "10"})).exit_code, 0);
  const std::string before = bytes("a/result.json");
  const Outcome again = lra(run("a"));
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_NE(again.err.find("--force"), std::string::npos);
  EXPECT_EQ(bytes("a/result.json"), before);
  EXPECT_EQ(lra(run("a", {"--steps", "20", "--force"})).exit_code, 0);
}

TEST_F(TrainEndToEndTest, ForceWithBadDataLeavesTheOldRun) {
  ASSERT_EQ(lra(run("a", {"--steps", "10"})).exit_code, 0);
  EXPECT_EQ(run_lra(run("a", {"--force", "--data", "nowhere"}), dir_.path()).exit_code, 1);
  EXPECT_TRUE(fs::exists(dir_.path() / "a/result.json"));
}

TEST_F(TrainEndToEndTest, AFullDiskStopsTheRunAndLeavesTheLastGoodCheckpoint) {
  ASSERT_EQ(lra(run("a", {"--steps", "20"})).exit_code, 0);
  fs::remove(dir_.path() / "a/result.json");
  const std::string before = bytes("a/checkpoints/last/model.safetensors");
  std::string config = bytes("a/config.yaml");
  // The file size limit stands for the full disk: both refuse the write of the next checkpoint.
  const rlimit small{64 << 10, 64 << 10};
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limited{small.rlim_cur, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limited);
  const Outcome full = lra(run("b"));
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_NE(full.err.find("checkpoint"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("untouched"), std::string::npos) << full.err;
  EXPECT_FALSE(fs::exists(dir_.path() / "b/checkpoints/last.new"));
  ASSERT_EQ(lra({"train", "--run", "a", "--resume", "--threads", "2"}).exit_code, 0);
  EXPECT_EQ(bytes("a/checkpoints/last/model.safetensors"), before);
}

TEST_F(TrainEndToEndTest, ALossThatIsNotFiniteNamesTheFirstBadTensorAndTheCheckpointStaysUsable) {
  const Outcome outcome = lra(
      run("a", {"--set", "train.learning_rate=100", "--set", "train.weight_decay=100", "--set",
                "train.schedule=constant", "--set", "train.warmup=1", "--set", "train.checkpoint_every=1"}));
  ASSERT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("first bad tensor is the"), std::string::npos) << outcome.err;
  const SafetensorsFile model(dir_.path() / "a/checkpoints/last/model.safetensors");
  for (const auto& [name, tensor] : model.tensors()) {
    for (int64_t i = 0; i < tensor.numel(); ++i) ASSERT_TRUE(std::isfinite(tensor.as<float>()[i])) << name;
  }
}

TEST_F(TrainEndToEndTest, DamagedFilesAreTheUsersMistakeAndNeverACrash) {
  ASSERT_EQ(lra(run("a", {"--steps", "10"})).exit_code, 0);
  fs::remove(dir_.path() / "a/result.json");
  const auto damaged = [&](const std::string& file, const std::string& text) {
    const std::string good = bytes(file);
    write_text(dir_.path() / file, text);
    const Outcome outcome = lra({"train", "--run", "a", "--resume"});
    EXPECT_EQ(outcome.exit_code, 1) << file << ": " << outcome.err;
    write_text(dir_.path() / file, good);
  };
  const std::string state = bytes("a/checkpoints/last/state.json"),
                    model = bytes("a/checkpoints/last/model.safetensors");
  damaged("a/checkpoints/last/state.json", "{}");
  damaged("a/checkpoints/last/state.json", state.substr(0, state.size() / 2));
  damaged("a/checkpoints/last/model.safetensors", model.substr(0, 100));
  damaged("a/checkpoints/last/model.safetensors", "");
  damaged("a/checkpoints/last/optimizer.safetensors", model);
  damaged("a/config.yaml", "train: [");
  damaged("a/config.yaml", bytes("a/config.yaml") + "extra: 1\n");
}

TEST_F(TrainEndToEndTest, EvaluationGivesTheResultsNumberAndWritesPredictions) {
  ASSERT_EQ(lra(run("a", {"--steps", "40"})).exit_code, 0);
  const Outcome outcome = lra({"eval", "a", "--json", "--predictions"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json j = parse_json(outcome.out, "stdout"), result = read_json(dir_.path() / "a/result.json");
  EXPECT_EQ(j["accuracy"], result["best"]["test_accuracy"]);
  const std::string lines = bytes("a/predictions/test.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 100);
  EXPECT_EQ(run_lra({"report", "a", "-o", "page.html"}, dir_.path()).exit_code, 0);
  EXPECT_NE(bytes("page.html").find("root operator"), std::string::npos);
  ASSERT_EQ(lra(run("b", {"--steps", "40", "--seed", "1"})).exit_code, 0);
  ASSERT_EQ(lra({"eval", "b", "--predictions"}).exit_code, 0);
  const Outcome compared = run_lra({"compare", "a", "b", "--runs", ".", "--json"}, dir_.path());
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
}

}  // namespace
}  // namespace lra
