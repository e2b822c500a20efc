// Progress of long work: one rewritten line with rate and time left on a terminal, a plain line now and then
// elsewhere.
//
//   Progress progress("listops: trees", total, "trees");
//   progress.update(done);                 // cheap: prints at most ten times a second
//   progress.update(done, "loss 1.23");    // with a remark
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lra {

class Progress {
 public:
  Progress(std::string title, int64_t total, std::string unit, int64_t start = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done, std::string_view remark = {});
  void finish() { finish(total_); }  // the last line stays on screen; the destructor alone clears it
  void finish(int64_t done);

 private:
  void print(int64_t done, std::string_view remark, bool last);

  std::string title_, unit_;
  int64_t total_, start_;
  std::chrono::steady_clock::time_point began_, printed_;
  bool terminal_, finished_ = false;
};

void clear_progress_line();                 // before anything else is written to a terminal
std::string duration_text(double seconds);  // "3 s", "4 min 10 s", "2 h 5 min"
std::string rate_text(double rate);         // "1,389,000", "45.55": four digits

}  // namespace lra
