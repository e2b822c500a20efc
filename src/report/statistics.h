// How sure an accuracy is, and whether two models differ on the same examples.
#pragma once
#include <cstdint>

namespace lra {

struct Interval {
  double low = 0, high = 0;
};

// 95 % Wilson score interval of a proportion: never leaves 0..1, right for proportions near 0 and 1.
Interval binomial_interval(double proportion, int64_t examples);

// Two models on the same examples.
struct PairedCounts {
  int64_t both = 0, only_a = 0, only_b = 0, neither = 0;
  int64_t total() const { return both + only_a + only_b + neither; }
};

// Exact McNemar test: under equal accuracy, each discordant pair falls to A or B like a fair coin.
//   p = min(1, 2 · P[Binomial(n, 1/2) ≤ min(only_a, only_b)]),  n = only_a + only_b
// In log space, so that thousands of discordant pairs neither overflow nor vanish.
double mcnemar_log_p(int64_t only_a, int64_t only_b);
double mcnemar_p(int64_t only_a, int64_t only_b);

// 95 % interval of accuracy(A) - accuracy(B) for paired proportions: Wald's with half an example added to
// each of the four cells (Agresti and Min, 2005), which stays honest with few or no discordant pairs.
Interval paired_interval(const PairedCounts& counts);

}  // namespace lra
