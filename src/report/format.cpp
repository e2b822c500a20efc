#include "report/format.h"

#include <cmath>

#include <fmt/format.h>

#include "base/progress.h"

namespace lra {

std::string percent_text(double fraction) { return fmt::format("{:.2f}", 100 * fraction); }

std::string percent_text(const std::optional<double>& fraction) {
  return fraction ? percent_text(*fraction) : kNothing;
}

std::string interval_text(const Interval& fractions) {
  return fmt::format("{:.1f}–{:.1f}", 100 * fractions.low, 100 * fractions.high);
}

std::string grouped_text(int64_t number) {
  std::string digits = fmt::format("{}", number);
  const size_t first = number < 0 ? 2 : 1;
  for (size_t at = digits.size(); at > first + 2; at -= 3) digits.insert(at - 3, "\u202F");
  return digits;
}

std::string bytes_text(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1024) return fmt::format("{} B", bytes);
  if (size < 1024.0 * 1024) return fmt::format("{:.1f} KiB", size / 1024);
  if (size < 1024.0 * 1024 * 1024) return fmt::format("{:.0f} MiB", size / (1024.0 * 1024));
  return fmt::format("{:.1f} GiB", size / (1024.0 * 1024 * 1024));
}

std::string time_text(double seconds) {
  return seconds >= 0 && seconds < 9.95 ? fmt::format("{:.1f} s", seconds) : duration_text(seconds);
}

std::string short_hash(std::string_view sha256) { return std::string(sha256.substr(0, 8)); }

std::string p_text(double log_p) {
  const double log10_p = log_p / std::log(10.0);
  if (log10_p > -4) return fmt::format("{:.3g}", std::exp(log_p));
  const double exponent = std::floor(log10_p);
  return fmt::format("{:.1f}e{:.0f}", std::pow(10, log10_p - exponent), exponent);
}

}  // namespace lra
