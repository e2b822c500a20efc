#include "bench/child.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

Child shell(const std::string& script) { return Child({"sh", "-c", script}); }

TEST(ChildTest, TheLastLineOfOutputIsTheResult) {
  const auto found = shell("echo first; echo '{\"ms\": 2.5}'").result();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->at("ms"), 2.5);
}

TEST(ChildTest, WaitsForItsTurn) {
  Child child = shell("echo ready; read line; echo \"{\\\"told\\\": \\\"$line\\\"}\"");
  ASSERT_TRUE(child.says("ready"));
  child.tell("go");
  EXPECT_EQ(child.result()->at("told"), "go");
}

TEST(ChildTest, OneThatEndsBeforeItIsReadyIsNoResult) {
  Child child = shell("exit 3");
  EXPECT_FALSE(child.says("ready"));
  child.tell("go");  // to nobody
  EXPECT_FALSE(child.result());
}

TEST(ChildTest, ACommandThatIsNotThereIsAnError) { EXPECT_ANY_THROW(Child({"/no/such/program"})); }

}  // namespace
}  // namespace lra
