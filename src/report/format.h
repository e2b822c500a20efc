// Numbers as a reader wants to see them. Accuracies are shown in percent everywhere.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/statistics.h"

namespace lra {

inline constexpr const char* kNothing = "–";  // stands where there is no number

std::string percent_text(double fraction);                        // 0.3637 -> "36.37"
std::string percent_text(const std::optional<double>& fraction);  // or kNothing
std::string interval_text(const Interval& fractions);             // "34.3–38.5"
std::string grouped_text(int64_t number);                         // 1048586 -> "1 048 586", not to be broken
std::string bytes_text(int64_t bytes);                            // "412 MiB"
std::string time_text(double seconds);                            // duration_text, "0.4 s" below ten seconds
std::string short_hash(std::string_view sha256);                  // the first 8 digits
std::string p_text(double log_p);                                 // natural logarithm -> "0.0321", "4.1e-512"

}  // namespace lra
