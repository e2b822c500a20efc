#include "data/download.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/checksum.h"
#include "data/http.h"
#include "data/part_file.h"

namespace lra {
namespace {

constexpr int64_t kMegabyte = 1'000'000;

// "bytes 100-199/1000": from, to and the size of the whole, -1 for '*'.
struct ContentRange {
  int64_t from = -1, to = -1, total = -1;
};
ContentRange parse_range(std::string_view text) {
  ContentRange range;
  const auto number = [&](int64_t& into) {
    if (text.starts_with('*')) return text.remove_prefix(1);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), into);
    if (code != std::errc() || into < 0) into = -1;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  };
  if (!text.starts_with("bytes ")) return range;
  text.remove_prefix(6);
  number(range.from);
  if (text.starts_with('-')) text.remove_prefix(1), number(range.to);
  if (text.starts_with('/')) text.remove_prefix(1), number(range.total);
  return range;
}

int64_t parse_length(std::string_view text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// What an If-Range may name: a strong ETag, else the date.
std::string validator_of(const HttpAnswer& answer) {
  const std::string_view tag = answer.header("etag");
  if (tag.starts_with('"') && tag.find_first_of("\r\n") == tag.npos) return std::string(tag);
  return std::string(answer.header("last-modified"));
}

bool stopped(const DownloadRequest& request) { return request.stop ? request.stop() : interrupted(); }
void check_stopped(const DownloadRequest& request) {
  if (!stopped(request)) return;
  throw Interrupted(
      fmt::format("the download of {} was interrupted; what has come is kept, and the same command goes on "
                  "from there",
                  request.url));
}

// Size and checksum of a complete file, in words; empty if they are right.
std::string what_is_wrong(const DownloadRequest& request, const fs::path& path) {
  const auto size = static_cast<int64_t>(fs::file_size(path));
  if (request.expected_size > 0 && size != request.expected_size) {
    return fmt::format("it has {} bytes, expected {}", size, request.expected_size);
  }
  const bool sha = !request.sha256.empty();
  const std::string& expected = sha ? request.sha256 : request.md5;
  if (expected.empty()) return "";
  Progress progress(fmt::format("{}: checking", request.to.filename().string()), size / kMegabyte, "MB");
  const std::string found =
      file_checksum(path, sha ? ChecksumKind::kSha256 : ChecksumKind::kMd5, [&](int64_t done) {
        check_stopped(request);
        progress.update(done / kMegabyte);
      });
  return found == expected
             ? ""
             : fmt::format("its {} is {}, expected {}", sha ? "SHA-256" : "MD5", found, expected);
}

class Download {
 public:
  explicit Download(const DownloadRequest& request) : request_(request), part_(request.to, request.url) {}

  void run() {
    fetch();
    finish();
  }

 private:
  // Whether the body of an answer is ours to write; decided once, before its first byte.
  bool accept(const HttpAnswer& answer) {
    if (accepted_) return true;
    if (answer.status == 200) {
      part_.start_over(validator_of(answer));
      total_ = parse_length(answer.header("content-length"));
    } else if (answer.status == 206) {
      const ContentRange range = parse_range(answer.header("content-range"));
      wrong_range_ = asked_from_ == 0 || range.from != asked_from_ || range.to < range.from;
      if (wrong_range_) return false;
      total_ = range.total;
    } else {
      return false;
    }
    check_size();
    accepted_ = true;
    if (!progress_) {
      progress_.emplace(request_.to.filename().string(), std::max<int64_t>(total_, 0) / kMegabyte, "MB",
                        part_.size() / kMegabyte);
    }
    return true;
  }

  void check_size() const {
    if (request_.expected_size > 0 && total_ >= 0 && total_ != request_.expected_size) {
      fail("download",
           "{}: the server offers {} bytes, {} were expected. It is another file than the published one.",
           request_.url, total_, request_.expected_size);
    }
    const int64_t needed = total_ - part_.size(), free = part_.free_space();
    if (needed > free) {
      fail("download",
           "{}: {} more bytes are needed, {} are free. Free some space; the same command then goes on from "
           "there.",
           part_.path().string(), needed, free);
    }
  }

  bool take(const HttpAnswer& answer, std::string_view bytes) {
    if (!accept(answer)) return false;
    if (request_.expected_size > 0 &&
        part_.size() + static_cast<int64_t>(bytes.size()) > request_.expected_size) {
      fail("download", "{}: the server sends more than the {} bytes expected. It is another file.",
           request_.url, request_.expected_size);
    }
    part_.write(bytes);
    if (progress_) progress_->update(part_.size() / kMegabyte);
    return true;
  }

  HttpResult ask() {
    HttpRequest http{.url = request_.url, .stall_seconds = request_.stall_seconds};
    if (part_.validator().empty()) part_.start_over();  // the rest could be another file's
    asked_from_ = part_.size();
    if (asked_from_ > 0) {
      http.range = fmt::format("{}-", asked_from_);
      http.headers.push_back("If-Range: " + part_.validator());
    }
    accepted_ = wrong_range_ = false;
    HttpResult result = http_get(
        http, [&](const HttpAnswer& answer, std::string_view bytes) { return take(answer, bytes); },
        [&] { return !stopped(request_); });
    check_stopped(request_);
    if (result.complete && !accepted_ && !wrong_range_) accept(result.answer);  // it had no body
    return result;
  }

  // Whether all of the file is there.
  bool arrived(const HttpResult& result) const {
    if (result.answer.status == 416 && asked_from_ > 0) {
      return parse_range(result.answer.header("content-range")).total == part_.size();
    }
    return accepted_ && result.complete && (total_ < 0 || part_.size() == total_);
  }

  void fetch() {
    int64_t most =
        part_.size();  // ever had: a server that starts over and breaks off again makes no progress
    int idle = 0;
    for (;;) {
      check_stopped(request_);
      const HttpResult result = ask();
      if (arrived(result)) return;
      if (wrong_range_ || (result.answer.status == 416 && asked_from_ > 0)) {
        ask_for_all_again(result);
        continue;
      }
      const std::string problem = problem_of(result);
      idle = part_.size() > most ? 0 : idle + 1;
      most = std::max(most, part_.size());
      if (idle >= request_.attempts) {
        fail("download",
             "{}: {}; {} attempts brought nothing new. {} bytes are kept in {}: the same command goes on "
             "from there.",
             request_.url, problem, idle, part_.size(), part_.path().string());
      }
      pause(idle, problem);
    }
  }

  void ask_for_all_again(const HttpResult& result) {
    part_.start_over();
    if (asked_for_all_again_) {
      fail("download",
           "{}: asked for bytes {} on, the server answered with status {} and the range '{}', twice. Try "
           "again "
           "later, or fetch the file by other means.",
           request_.url, asked_from_, result.answer.status, result.answer.header("content-range"));
    }
    asked_for_all_again_ = true;
  }

  // In words, if it is worth another attempt; throws if it is not.
  std::string problem_of(const HttpResult& result) const {
    if (!result.complete && !result.may_retry) fail("download", "{}: {}.", request_.url, result.problem);
    const int64_t status = result.answer.status;
    if (!accepted_ && status >= 300) {
      if (status >= 500 || status == 408 || status == 429)
        return fmt::format("the server answered with status {}", status);
      fail("download", "{}: the server answered with status {}. {}", request_.url, status,
           status == 404 || status == 410
               ? "The file is not there any more: look for its new place, or fetch it by other means."
               : "Fetch the file by other means.");
    }
    return result.problem.empty() ? "the answer was incomplete" : result.problem;
  }

  void pause(int idle, const std::string& problem) const {
    double seconds = idle == 0 ? 0 : request_.first_pause_seconds;
    for (int i = 1; i < idle; ++i) seconds *= 2;
    seconds = std::min(seconds, request_.longest_pause_seconds);
    verbose("{}: {}; trying again from byte {} in {:.0f} s.", request_.url, problem, part_.size(), seconds);
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < until) {
      check_stopped(request_);
      const std::chrono::duration<double> left = until - Clock::now();
      std::this_thread::sleep_for(std::min(left, std::chrono::duration<double>(0.1)));
    }
  }

  void finish() {
    if (progress_) progress_->finish(part_.size() / kMegabyte);
    progress_.reset();
    part_.flush();
    const std::string wrong = what_is_wrong(request_, part_.path());
    if (!wrong.empty()) {
      part_.remove();
      fail("download",
           "{}: what came is not the published file: {}. It was removed; try again, or fetch it by other "
           "means.",
           request_.url, wrong);
    }
    part_.put_in_place();
  }

  const DownloadRequest& request_;
  PartFile part_;
  int64_t total_ = -1;  // bytes of the whole file, -1 if not known
  int64_t asked_from_ = 0;
  bool accepted_ = false, wrong_range_ = false, asked_for_all_again_ = false;
  std::optional<Progress> progress_;
};

}  // namespace

void download(const DownloadRequest& request) {
  if (!request.url.starts_with("http://") && !request.url.starts_with("https://")) {
    fail("download", "{}: only http:// and https:// are known.", request.url);
  }
  if (fs::exists(request.to)) {
    const std::string wrong = what_is_wrong(request, request.to);
    if (wrong.empty()) return info("{} is already there.", request.to.string());
    fail("download", "{} is there, but not the published file: {}. Move it away and try again.",
         request.to.string(), wrong);
  }
  Download(request).run();
}

}  // namespace lra
