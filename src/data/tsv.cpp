#include "data/tsv.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lra {
namespace {

[[noreturn]] void fail_long_line(const Place& place, size_t longest) {
  fail("tsv", "{}: longer than {} bytes. This is not a file of the expected kind.", place.text(), longest);
}
[[noreturn]] void fail_zero(const Place& place, size_t at) {
  fail("tsv", "{}: a zero byte at column {}. This is not a text file, or it is damaged.", place.text(),
       at + 1);
}

}  // namespace

std::string Place::text() const { return fmt::format("{} {} {}", file, unit, number); }

LineReader::LineReader(const fs::path& path, size_t longest_line)
    : file_(path), name_(path.string()), longest_(longest_line) {}

bool LineReader::next(std::string_view& line) {
  const std::string_view bytes = file_.bytes();
  if (at_ >= bytes.size()) return false;
  ++number_;
  // Never looks further than the longest line, so that a file without line ends costs nothing.
  const std::string_view window = bytes.substr(at_, longest_ + 2);
  const size_t newline = window.find('\n');
  line = window.substr(0, newline);
  at_ += line.size() + (newline == window.npos ? 0 : 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.size() > longest_) fail_long_line(place(), longest_);
  const size_t zero = line.find('\0');
  if (zero != line.npos) fail_zero(place(), zero);
  return true;
}

LineBatches::LineBatches(ByteStream& stream, size_t longest_line, size_t batch_bytes)
    : stream_(stream),
      name_(stream.place()),
      longest_(longest_line),
      batch_bytes_(std::max<size_t>(batch_bytes, 1)) {}

// Moves what is left to the front and reads until the buffer holds a batch, or the stream ends.
void LineBatches::fill() {
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  // Beyond a batch only what the longest line allows, with its end.
  const size_t wanted = end_ < batch_bytes_ ? batch_bytes_ : std::min(end_ * 2, longest_ + 3);
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  while (end_ < wanted && !ended_) {
    const size_t n = stream_.read(buffer_.data() + end_, wanted - end_);
    ended_ = n == 0;
    end_ += n;
  }
}

bool LineBatches::next(std::vector<Line>& lines) {
  lines.clear();
  while (lines.empty()) {
    const size_t had = end_ - begin_;
    fill();
    if (end_ == 0) return false;
    const char* const stop = buffer_.data() + end_;
    const char* const zero = static_cast<const char*>(std::memchr(buffer_.data(), 0, end_));
    const auto add = [&](const char* from, const char* to) {
      if (to > from && to[-1] == '\r') --to;
      const Place place{name_, "line", ++number_};
      if (static_cast<size_t>(to - from) > longest_) fail_long_line(place, longest_);
      if (zero && zero >= from && zero < to) fail_zero(place, static_cast<size_t>(zero - from));
      lines.push_back({{from, static_cast<size_t>(to - from)}, place});
    };
    const char* at = buffer_.data();
    // What was there before holds no line end, or it would have been given out.
    const char* search = at + had;
    while (const auto* newline =
               static_cast<const char*>(std::memchr(search, '\n', static_cast<size_t>(stop - search)))) {
      add(at, newline);
      at = search = newline + 1;
    }
    if (ended_ && at < stop) {
      add(at, stop);
      at = stop;
    }
    begin_ = static_cast<size_t>(at - buffer_.data());
    if (lines.empty() && end_ - begin_ > longest_ + 1) fail_long_line({name_, "line", number_ + 1}, longest_);
  }
  return true;
}

size_t cut_at_tabs(std::string_view line, std::string_view* fields, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const size_t tab = line.find('\t');
    fields[i] = line.substr(0, tab);
    if (tab == line.npos) return i + 1;
    line.remove_prefix(tab + 1);
  }
  return count + 1;
}

void fail_fields(const Place& place, size_t found, size_t expected) {
  fail("tsv", "{}: {} {} separated by tabs, expected {}.", place.text(),
       found > expected ? fmt::format("more than {}", expected) : fmt::format("{}", found),
       found == 1 ? "field" : "fields", expected);
}

}  // namespace lra
