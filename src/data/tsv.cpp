#include "data/tsv.h"

#include "base/error.h"

namespace lra {

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
  if (line.size() > longest_) {
    fail("tsv", "{}: longer than {} bytes. This is not a file of the expected kind.", place().text(),
         longest_);
  }
  const size_t zero = line.find('\0');
  if (zero != line.npos) {
    fail("tsv", "{}: a zero byte at column {}. This is not a text file, or it is damaged.", place().text(),
         zero + 1);
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
