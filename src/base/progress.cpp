#include "base/progress.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

#include "base/log.h"

namespace lra {
namespace {
std::atomic<bool> line_on_screen{false};
constexpr double kTerminalEvery = 0.1;
constexpr double kPlainEvery = 10.0;
}  // namespace

void clear_progress_line() {
  if (!line_on_screen.exchange(false)) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

std::string rate_text(double rate) {
  if (!std::isfinite(rate) || std::abs(rate) >= 1e15) return fmt::format("{:.4g}", rate);
  if (std::abs(rate) < 1000) return fmt::format("{:.4g}", rate);
  const double unit = std::pow(10, std::floor(std::log10(std::abs(rate))) - 3);  // four digits
  const std::string digits = fmt::format("{:.0f}", std::round(std::abs(rate) / unit) * unit);
  std::string text = rate < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

Progress::Progress(std::string title, int64_t total, std::string unit, int64_t start)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      total_(total),
      start_(start),
      began_(std::chrono::steady_clock::now()),
      printed_(began_),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (!finished_) clear_progress_line();
}

void Progress::update(int64_t done, std::string_view remark) {
  if (log_level() == LogLevel::kQuiet) return;
  const auto now = std::chrono::steady_clock::now();
  const double since = std::chrono::duration<double>(now - printed_).count();
  if (since < (terminal_ ? kTerminalEvery : kPlainEvery)) return;
  printed_ = now;
  print(done, remark, false);
}

void Progress::finish(int64_t done) {
  if (finished_ || log_level() == LogLevel::kQuiet) return;
  finished_ = true;
  print(done, {}, true);
}

void Progress::print(int64_t done, std::string_view remark, bool last) {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done - start_) / elapsed : 0;
  std::string line = fmt::format("{} {}", title_, done);
  if (total_ > 0) line += fmt::format("/{}", total_);
  if (rate > 0) line += fmt::format("  {} {}/s", rate_text(rate), unit_);
  if (last) {
    line += fmt::format("  in {}", duration_text(elapsed));
  } else if (rate > 0 && total_ > done) {
    line += fmt::format("  {} left", duration_text(static_cast<double>(total_ - done) / rate));
  }
  if (!remark.empty()) line += fmt::format("  {}", remark);
  if (terminal_ && !last) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    line_on_screen = true;
  } else {
    clear_progress_line();
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

}  // namespace lra
