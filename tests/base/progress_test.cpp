#include "base/progress.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(RateTextTest, HasFourDigitsAndGroupsOfThree) {
  EXPECT_EQ(rate_text(0.123456), "0.1235");
  EXPECT_EQ(rate_text(45.55), "45.55");
  EXPECT_EQ(rate_text(999.96), "1000");
  EXPECT_EQ(rate_text(8812.4), "8,812");
  EXPECT_EQ(rate_text(1389217), "1,389,000");
  EXPECT_EQ(rate_text(-45554), "-45,550");
}

}  // namespace
}  // namespace lra
