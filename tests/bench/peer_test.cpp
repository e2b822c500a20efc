#include "bench/peer.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

// Peers that are shell scripts: $1 is --wait, $3 the mode. What they do is logged.
class PeerTest : public testing::Test {
 protected:
  std::vector<BenchRow> run(const std::string& script, const std::string& device) {
    folder_.write("transformer.py", "log=" + log().string() + "\nmode=$3\n" + script);
    BenchOptions options;
    options.peers_folder = folder_.path();
    options.python = python_;
    return run_peers({}, options, device, "fp32");
  }
  fs::path log() const { return folder_ / "log"; }
  std::string logged() const {
    std::ifstream in(log());
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void compile(const std::string& script, const std::vector<std::string>& models, const std::string& device) {
    std::vector<BenchCase> cases;
    for (const auto& model : models) {
      folder_.write(model + ".py", "log=" + log().string() + "\nmode=$3\n" + script);
      cases.emplace_back().model = model;
    }
    BenchOptions options;
    options.peers_folder = folder_.path();
    options.python = python_;
    compile_peers(cases, std::vector<std::string>(cases.size(), "fp32"), options, device);
  }

  // What check_peers says of a case whose peer is there; nothing if it could run.
  std::string check(const BenchCase& c) {
    folder_.write(c.model + ".py", "");
    BenchOptions options;
    options.peers_folder = folder_.path();
    options.python = python_;
    return error_text([&] { check_peers({c}, options, "cpu"); });
  }
  // In the place of Python; nothing else can run the check, which is a line of Python.
  void interpret_with(const std::string& script) {
    python_ = folder_.write("python", "#!/bin/sh\n" + script).string();
    fs::permissions(python_, fs::perms::owner_all);
  }

  std::string python_ = "sh";
  const TempDir folder_;
};

const std::string kNumbers =
    R"(echo '{"ms_median": 2, "ms_p10": 1, "ms_p90": 3, "tokens_per_s": 4, "peak_bytes": 5, "repeats": 6}')";

TEST_F(PeerTest, AnInterpreterThatImportsThePeersWillDo) {
  interpret_with("echo '{}'");
  EXPECT_EQ(check({}), "");
}

TEST_F(PeerTest, AnInterpreterWithoutTorchIsRefused) {
  interpret_with("exit 1");
  EXPECT_NE(check({}).find("--python"), std::string::npos) << check({});
}

TEST_F(PeerTest, AnInterpreterThatIsNotThereIsRefused) {
  python_ = "/no/such/python";
  EXPECT_NE(check({}).find("/no/such/python"), std::string::npos) << check({});
}

TEST_F(PeerTest, WhatNoPeerHasIsRefused) {
  interpret_with("echo '{}'");
  BenchCase c;
  c.set = parse_assignment("transformer.attention=unfused");
  EXPECT_NE(check(c).find("transformer.attention"), std::string::npos) << check(c);
  c = {};
  c.sizes.positions = "learned";
  EXPECT_NE(check(c).find("model.positions"), std::string::npos) << check(c);
}

TEST_F(PeerTest, FillsARowForEachMode) {
  const auto rows = run("echo ready; read turn; " + kNumbers, "cpu");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].implementation, "torch-eager");
  EXPECT_EQ(rows[1].implementation, "torch-compile");
  for (const auto& row : rows) EXPECT_EQ(row.ms_median, 2) << row.problem;
}

TEST_F(PeerTest, OneThatFailsIsNoLossToTheOthers) {
  const auto rows = run("[ $mode = eager ] && exit 1; echo ready; read turn; " + kNumbers, "cuda:0");
  EXPECT_NE(rows[0].problem.find("--mode eager failed"), std::string::npos) << rows[0].problem;
  EXPECT_EQ(rows[1].ms_median, 2) << rows[1].problem;
}

TEST_F(PeerTest, OneThatWritesNonsenseHasAProblem) {
  const auto rows = run("echo ready; read turn; echo nonsense", "cpu");
  EXPECT_FALSE(rows[0].problem.empty());
}

TEST_F(PeerTest, OneThatCannotBeStartedHasAProblem) {
  python_ = "/no/such/python";
  for (const char* device : {"cpu", "cuda:0"}) {
    const auto rows = run("", device);
    EXPECT_NE(rows[0].problem.find("/no/such/python"), std::string::npos) << rows[0].problem;
  }
}

TEST_F(PeerTest, OnAGpuTheyGetReadySideBySide) {
  // Each is ready only when both have begun.
  const auto rows = run(R"(
    echo x >> $log
    while [ $(wc -l < $log) -lt 2 ]; do sleep 0.05; done
    echo ready; read turn; )" +
                            kNumbers,
                        "cuda:0");
  for (const auto& row : rows) EXPECT_TRUE(row.problem.empty()) << row.problem;
}

TEST_F(PeerTest, OnACpuOneBeginsWhenTheOtherHasEnded) {
  run("echo begin >> $log; echo ready; read turn; echo end >> $log; " + kNumbers, "cpu");
  EXPECT_EQ(logged(), "begin\nend\nbegin\nend\n");
}

TEST_F(PeerTest, OneThatFailedBesideOthersIsTriedAlone) {
  const auto rows = run(R"(
    echo $mode >> $log
    [ $mode = eager ] && [ $(grep -c eager $log) -lt 2 ] && exit 1
    echo ready; read turn; )" +
                            kNumbers,
                        "cuda:0");
  EXPECT_EQ(rows[0].ms_median, 2) << rows[0].problem;
}

TEST_F(PeerTest, WhoRunsOutOfMemoryWhenItIsMeasuredIsTriedAlone) {
  const auto rows = run(R"(
    echo $mode >> $log
    echo ready; read turn
    [ $mode = eager ] && [ $(grep -c eager $log) -lt 2 ] && exit 1
    )" + kNumbers,
                        "cuda:0");
  EXPECT_EQ(rows[0].ms_median, 2) << rows[0].problem;
}

TEST_F(PeerTest, ThoseOfSeveralCasesAreCompiledFirstAndEndedWhenReady) {
  compile("echo $mode >> $log; echo ready; read turn; echo on >> $log", {"linear", "local"}, "cuda:0");
  EXPECT_EQ(logged(), "compile\ncompile\n");
}

TEST_F(PeerTest, OneThatCannotBeCompiledIsLeftForLater) {
  compile("echo $mode >> $log; exit 1", {"linear", "local"}, "cuda:0");
  EXPECT_EQ(logged(), "compile\ncompile\n");
  python_ = "/no/such/python";
  EXPECT_NO_THROW(compile("", {"linear", "local"}, "cuda:0"));
}

TEST_F(PeerTest, ThoseOfOneCaseOrOfACpuAreNotCompiledBeforehand) {
  compile("echo $mode >> $log", {"linear"}, "cuda:0");
  compile("echo $mode >> $log", {"linear", "local"}, "cpu");
  EXPECT_EQ(logged(), "");
}

}  // namespace
}  // namespace lra
