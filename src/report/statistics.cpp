#include "report/statistics.h"

#include <algorithm>
#include <cmath>

namespace lra {
namespace {
constexpr double kZ95 = 1.959963984540054;  // the normal distribution's 97.5 % point
}

Interval binomial_interval(double proportion, int64_t examples) {
  if (examples <= 0) return {0, 1};
  // (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)
  const auto n = static_cast<double>(examples);
  const double p = std::clamp(proportion, 0.0, 1.0), z2n = kZ95 * kZ95 / n;
  const double centre = p + z2n / 2, reach = kZ95 * std::sqrt(p * (1 - p) / n + z2n / (4 * n));
  return {std::max(0.0, (centre - reach) / (1 + z2n)), std::min(1.0, (centre + reach) / (1 + z2n))};
}

double mcnemar_log_p(int64_t only_a, int64_t only_b) {
  const int64_t n = only_a + only_b, k = std::min(only_a, only_b);
  if (only_a == only_b) return 0;  // also for no discordant pair at all
  const auto log_factorial = [](int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  const double log_largest =
      log_factorial(n) - log_factorial(k) - log_factorial(n - k) - static_cast<double>(n) * std::log(2.0);
  // C(n,i-1) / C(n,i) = i / (n-i+1) < 1 below the middle: the sum relative to its largest term.
  double sum = 1, term = 1;
  for (int64_t i = k; i > 0 && term > 1e-18 * sum; --i) {
    term *= static_cast<double>(i) / static_cast<double>(n - i + 1);
    sum += term;
  }
  return std::min(0.0, std::log(2.0) + log_largest + std::log(sum));
}

double mcnemar_p(int64_t only_a, int64_t only_b) { return std::exp(mcnemar_log_p(only_a, only_b)); }

Interval paired_interval(const PairedCounts& counts) {
  const double a = static_cast<double>(counts.only_a) + 0.5, b = static_cast<double>(counts.only_b) + 0.5;
  const double n = static_cast<double>(counts.total()) + 2;
  const double centre = (a - b) / n, reach = kZ95 * std::sqrt(a + b - (a - b) * (a - b) / n) / n;
  return {std::max(-1.0, centre - reach), std::min(1.0, centre + reach)};
}

}  // namespace lra
