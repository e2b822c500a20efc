// What every task must keep, over the registry: a new task is covered the day it is added.
#include "tasks/task.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

class EveryTask : public testing::TestWithParam<std::string> {
 protected:
  EveryTask() { set_log_level(LogLevel::kQuiet); }
  const Task& task_ = find_task(GetParam());
};

TEST_P(EveryTask, DescribesItself) {
  const TaskInfo& info = task_.info();
  EXPECT_FALSE(info.title.empty());
  EXPECT_FALSE(info.version.empty());
  EXPECT_FALSE(info.description.empty());
  EXPECT_FALSE(info.source.empty());
  EXPECT_GE(info.num_classes, 2);
  EXPECT_GE(info.max_length, 1);
  EXPECT_TRUE(!info.pad_id || (*info.pad_id >= 0 && *info.pad_id < info.vocab_size));
}

TEST_P(EveryTask, MakesTinyDataThatVerifiesAndCanBeShown) {
  const TempDir folder;
  MakeRequest request;
  request.size = "tiny";
  const DataFolder made = make_data(task_, folder.path(), request);
  EXPECT_EQ(verify_data(task_, made).at("splits").at("train").at("benchmark"), "tiny");
  const Dataset test = made.open("test");
  EXPECT_FALSE(task_.show(test, 0).empty());
  EXPECT_FALSE(data_stats(task_, made).tables.empty());
}

TEST_P(EveryTask, PutsEveryExampleInANamedGroup) {
  if (task_.group_names().empty()) GTEST_SKIP() << "no groups";
  const TempDir folder;
  MakeRequest request;
  request.size = "tiny";
  const Dataset test = make_data(task_, folder.path(), request).open("test");
  for (int64_t i = 0; i < test.size(); ++i) {
    ASSERT_LT(static_cast<size_t>(task_.group_of(test, i)), task_.group_names().size()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryTask, testing::ValuesIn(Registry<Task>::instance().names()),
                         [](const auto& entry) { return entry.param; });

TEST(FindTask, SuggestsTheNearestName) {
  EXPECT_TRUE(says(error_text([] { find_task("listop"); }), "Did you mean 'listops'?"));
}

// Reading the root operator is worth something; it cannot be worth less than the majority class.
TEST(ListOpsTask, HasBaselinesInTheirKnownOrder) {
  set_log_level(LogLevel::kQuiet);
  const TempDir folder;
  MakeRequest request;
  request.size = "tiny";
  const DataFolder made = make_data(find_task("listops"), folder.path(), request);
  const auto baselines = find_task("listops").baselines(made.open("train"), made.open("test"));
  ASSERT_EQ(baselines.size(), 2u);
  EXPECT_NEAR(baselines[0].accuracy, 0.10, 0.03);
  EXPECT_NEAR(baselines[1].accuracy, 0.21, 0.04);
}

}  // namespace
}  // namespace lra
