#include "report/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

#include "report/format.h"

namespace lra {
namespace {

TEST(StatisticsTest, McNemarEqualsTheBinomialTailByHand) {
  // n = 10, k = 2: 2 (1 + 10 + 45) / 1024
  EXPECT_NEAR(mcnemar_p(2, 8), 112.0 / 1024, 1e-15);
  EXPECT_NEAR(mcnemar_p(8, 2), 112.0 / 1024, 1e-15);
  // n = 5, k = 0: 2 / 32
  EXPECT_NEAR(mcnemar_p(0, 5), 0.0625, 1e-16);
  // n = 1: no evidence at all
  EXPECT_DOUBLE_EQ(mcnemar_p(1, 0), 1.0);
  // n = 7, k = 3: 2 · 64 / 128 is all of it
  EXPECT_NEAR(mcnemar_p(3, 4), 1.0, 1e-14);
}

TEST(StatisticsTest, McNemarWithoutDiscordantPairsOrWithATieIsOne) {
  EXPECT_EQ(mcnemar_p(0, 0), 1.0);
  EXPECT_EQ(mcnemar_p(6, 6), 1.0);
  EXPECT_EQ(mcnemar_p(5000, 5000), 1.0);
}

TEST(StatisticsTest, McNemarHoldsForThousandsOfPairs) {
  // Normal approximation with continuity correction: z = (|a-b| - 1) / √n.
  const auto normal = [](double a, double b) {
    return std::erfc((std::abs(a - b) - 1) / std::sqrt(a + b) / std::sqrt(2.0));
  };
  EXPECT_NEAR(mcnemar_p(4900, 5100), normal(4900, 5100), 1e-5);
  EXPECT_NEAR(mcnemar_p(49000, 50000), normal(49000, 50000), 1e-5);
  // 2 · 2^-5000 is no double, its logarithm is.
  EXPECT_EQ(mcnemar_p(0, 5000), 0.0);
  EXPECT_NEAR(mcnemar_log_p(0, 5000), -4999 * std::log(2.0), 1e-8);
  EXPECT_EQ(p_text(mcnemar_log_p(0, 5000)), "1.4e-1505");
}

TEST(StatisticsTest, McNemarFallsAsThePairsLeanToOneSide) {
  for (int64_t k = 0; k < 50; ++k) EXPECT_LT(mcnemar_p(k, 100 - k), mcnemar_p(k + 1, 99 - k) + 1e-15) << k;
}

TEST(StatisticsTest, WilsonIntervalHasItsTextbookValues) {
  // 0 of 10: z²/(n + z²) = 3.8415 / 13.8415
  const Interval none = binomial_interval(0, 10);
  EXPECT_DOUBLE_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.277533, 1e-6);
  // 81 of 263 (Newcombe 1998): 0.2553 to 0.3662
  const Interval newcombe = binomial_interval(81.0 / 263, 263);
  EXPECT_NEAR(newcombe.low, 0.2553, 5e-5);
  EXPECT_NEAR(newcombe.high, 0.3662, 5e-5);
  const Interval unknown = binomial_interval(0.5, 0);
  EXPECT_EQ(unknown.low, 0);
  EXPECT_EQ(unknown.high, 1);
}

TEST(StatisticsTest, PairedIntervalIsTheAdjustedWaldIntervalByHand) {
  // a = 20.5, b = 10.5, n = 102: d = 10 / 102, se = √(31 - 100/102) / 102
  const Interval i = paired_interval({50, 20, 10, 20});
  EXPECT_NEAR(i.low, 0.098039 - 1.959964 * 0.053713, 2e-5);
  EXPECT_NEAR(i.high, 0.098039 + 1.959964 * 0.053713, 2e-5);
}

TEST(StatisticsTest, PairedIntervalIsNotAPointWithoutDiscordantPairs) {
  const Interval i = paired_interval({900, 0, 0, 100});
  EXPECT_LT(i.low, -1e-4);
  EXPECT_NEAR(i.low, -i.high, 1e-15);
}

TEST(StatisticsTest, NumbersAreShownForReaders) {
  EXPECT_EQ(percent_text(0.36371), "36.37");
  EXPECT_EQ(percent_text(std::nullopt), kNothing);
  EXPECT_EQ(grouped_text(19924490), "19\u202F924\u202F490");
  EXPECT_EQ(grouped_text(-1234), "-1\u202F234");
  EXPECT_EQ(grouped_text(999), "999");
  EXPECT_EQ(bytes_text(3221225472), "3.0 GiB");
  EXPECT_EQ(p_text(std::log(0.0321)), "0.0321");
}

}  // namespace
}  // namespace lra
