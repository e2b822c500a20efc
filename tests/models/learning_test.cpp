// Every registered model learns: minutes of a small ListOps with the real program take it past what the root
// operator alone tells. None is named here.
// label: slow
#include <gtest/gtest.h>

#include "base/json.h"
#include "models/model.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

class LearningTest : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempDir;
    const Outcome made = run_lra(
        {"data", "make", "listops", "--size", "tiny", "--data", data_->path().string()}, data_->path());
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete data_; }

  static TempDir* data_;
  TempDir dir_;
};
TempDir* LearningTest::data_ = nullptr;

TEST_P(LearningTest, BeatsWhatNeedsNoLearning) {
  const Outcome trained = run_lra(
      {"train", GetParam(), "listops", "--protocol", "tiny", "--device", "cpu", "--data",
       data_->path().string(), "--run", "run", "--set", "train.steps=600", "--set", "train.eval_every=300"},
      dir_.path());
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json result = read_json(dir_.path() / "run" / "result.json");
  double trivial = 0;
  for (const Json& baseline : result.at("baselines")) {
    trivial = std::max(trivial, baseline.at("accuracy").get<double>());
  }
  EXPECT_GT(trivial, 0.2);  // the root operator
  EXPECT_GT(result.at("best").at("test_accuracy").get<double>(), trivial + 0.05);
}

INSTANTIATE_TEST_SUITE_P(Registry, LearningTest, testing::ValuesIn(Registry<Model>::instance().names()));

}  // namespace
}  // namespace lra
