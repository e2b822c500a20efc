#include "base/json.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lra {
namespace {

int64_t step(const std::string& number) {
  return json_get<int64_t>(parse_json("{\"step\": " + number + "}", "input"), "step", "input");
}

TEST(JsonTest, WholeNumbersAreReadExactly) {
  EXPECT_EQ(step("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(step("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(step("3.0"), 3);
}

TEST(JsonTest, NumbersThatAreNoWholeNumberOf64BitsAreRefused) {
  for (const char* number :
       {"9223372036854775808", "6666666666666666666666666666666666666", "-1e300", "0.5"}) {
    EXPECT_TRUE(says(error_text([&] { step(number); }), "no whole number of 64 bits")) << number;
  }
  EXPECT_TRUE(says(error_text([&] { step("\"7\""); }), "wrong type"));
}

}  // namespace
}  // namespace lra
