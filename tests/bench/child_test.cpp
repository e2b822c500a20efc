#include "bench/child.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/error.h"

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

TEST(ChildTest, OtherOutputBeforeItIsReadyIsPassedOver) {
  Child child = shell("echo loading; echo ready; read line; echo '{}'");
  EXPECT_TRUE(child.says("ready"));
}

TEST(ChildTest, TheLastLineNeedsNoEnd) { EXPECT_TRUE(shell("printf '{\"ms\": 1}'").result()); }

TEST(ChildTest, WhatIsNoDocumentIsAnError) { EXPECT_THROW(shell("echo {").result(), Error); }

TEST(ChildTest, OneThatIsDroppedIsEnded) {
  const auto began = std::chrono::steady_clock::now();
  {
    Child child = shell("echo ready; exec sleep 100");
    EXPECT_TRUE(child.says("ready"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(50));
}

TEST(ChildTest, ACommandThatIsNotThereIsAnError) { EXPECT_ANY_THROW(Child({"/no/such/program"})); }

}  // namespace
}  // namespace lra
