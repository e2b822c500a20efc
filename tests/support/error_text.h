// What the Error thrown by `action` says; empty if none was thrown. Anything else thrown fails the test.
//
//   EXPECT_TRUE(says(error_text([&] { Dataset("x"); }), "cannot open"));
#pragma once
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/error.h"

namespace lra {

template <class Action>
std::string error_text(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline testing::AssertionResult says(const std::string& text, std::string_view part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part
                                     << "' is not in: " << (text.empty() ? "(no error)" : text);
}

}  // namespace lra
