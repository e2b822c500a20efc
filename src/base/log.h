// What people read goes to stderr; stdout belongs to results.
#pragma once
#include <string_view>

#include <fmt/format.h>

namespace lra {

enum class LogLevel { kQuiet, kNormal, kVerbose };

void set_log_level(LogLevel level);
LogLevel log_level();

void log_line(LogLevel at_least, std::string_view line);
void log_warning(std::string_view line);  // shown even with --quiet

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kNormal, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void verbose(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kVerbose, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  log_warning(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lra
