#include "base/log.h"

#include <atomic>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/progress.h"

namespace lra {
namespace {

std::atomic<LogLevel> current{LogLevel::kNormal};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("lra");
    made->set_pattern("%^%v%$");
    made->set_level(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { current = level; }
LogLevel log_level() { return current; }

void log_line(LogLevel at_least, std::string_view line) {
  if (static_cast<int>(current.load()) < static_cast<int>(at_least)) return;
  clear_progress_line();
  logger().debug(line);
}

void log_warning(std::string_view line) {
  clear_progress_line();
  logger().warn("lra: warning: {}", line);
}

}  // namespace lra
