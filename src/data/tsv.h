// Tab-separated text as data sets are published in: one example a line, no quoting.
//
//   LineReader lines(path);
//   for (std::string_view line; lines.next(line);) {
//     const auto [source, target] = split_tabs<2>(line, lines.place());
//   }
//
// or, from a stream, many lines at a time (to be parsed by many threads):
//
//   LineBatches batches(stream);
//   for (std::vector<Line> lines; batches.next(lines);) …
//
// Neither is ever trusted: lines have a largest length, a zero byte is refused, CRLF and a missing end of the
// last line are tolerated. Errors name file and line.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/byte_stream.h"

namespace lra {

// Where something stands in a file, put into words only when an error needs it.
struct Place {
  std::string_view file;
  const char* unit = "line";
  int64_t number = 0;

  std::string text() const;  // "basic_train.tsv line 17"
};

class LineReader {
 public:
  explicit LineReader(const fs::path& path, size_t longest_line = size_t{1} << 24);

  // The next line without its end; false after the last. The view lives as long as the reader.
  bool next(std::string_view& line);
  Place place() const { return {name_, "line", number_}; }  // of the line last returned, from 1 on
  size_t bytes_read() const { return at_; }
  size_t bytes_total() const { return file_.bytes().size(); }

 private:
  MappedFile file_;
  std::string name_;
  size_t longest_, at_ = 0;
  int64_t number_ = 0;
};

struct Line {
  std::string_view text;  // without its end
  Place place;
};

class LineBatches {
 public:
  // Reads `stream` to its end; places are named after it.
  explicit LineBatches(ByteStream& stream, size_t longest_line = size_t{1} << 24,
                       size_t batch_bytes = size_t{8} << 20);
  LineBatches(const LineBatches&) = delete;
  LineBatches& operator=(const LineBatches&) = delete;

  // The next lines, in order and at least one; false after the last. The views live until the next call, the
  // places as long as the reader.
  bool next(std::vector<Line>& lines);

 private:
  void fill();

  ByteStream& stream_;
  std::string name_;
  size_t longest_, batch_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // of the bytes not yet given out
  bool ended_ = false;
  int64_t number_ = 0;
};

// Cuts at tabs into `fields` and says how many were found, at most fields + 1: the caller knows what it
// expected.
size_t cut_at_tabs(std::string_view line, std::string_view* fields, size_t count);
[[noreturn]] void fail_fields(const Place& place, size_t found, size_t expected);

// Exactly N fields; anything else is an error with the place.
template <size_t N>
std::array<std::string_view, N> split_tabs(std::string_view line, const Place& place) {
  std::array<std::string_view, N> fields;
  const size_t found = cut_at_tabs(line, fields.data(), N);
  if (found != N) fail_fields(place, found, N);
  return fields;
}

}  // namespace lra
