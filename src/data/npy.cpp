#include "data/npy.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace lra {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLongestHeader = size_t{1} << 16;
constexpr int64_t kMostColumns = 1024;

struct NpyHeader {
  char kind = 'S';
  int64_t width = 0;  // characters of one string
  bool fortran = false;
  std::vector<int64_t> shape;
  size_t end = 0;
};

// The header is a Python dict of one line; only its three keys and their plain forms are understood.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, size_t offset, std::string_view place)
      : text_(text), offset_(offset), place_(place) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        parse_descr(header);
      } else if (key == "fortran_order" && !order) {
        order = true;
        if (word("True")) {
          header.fortran = true;
        } else if (!word("False")) {
          refuse("'fortran_order' is neither True nor False");
        }
      } else if (key == "shape" && !shape) {
        shape = true;
        parse_shape(header);
      } else {
        refuse(fmt::format("the key '{}' is unknown or there twice", key));
      }
      if (!take(',') && !(skip_blanks(), at_ < text_.size() && text_[at_] == '}'))
        refuse("a ',' or '}' was expected");
    }
    if (!descr || !order || !shape) refuse("one of 'descr', 'fortran_order' and 'shape' is missing");
    return header;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail("npy", "{}: byte {} of the NumPy header: {}. A table of strings was expected.", place_,
         offset_ + at_, what);
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("'{}' was expected", c));
  }
  bool word(std::string_view w) {
    skip_blanks();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::string_view quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') refuse("a quoted name was expected");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) refuse("a quote is not closed");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  int64_t number() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc() || value < 0) refuse("a size was expected");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  void parse_descr(NpyHeader& header) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') refuse("the array has named fields");
    const std::string_view descr = quoted();
    if (descr.find('O') != descr.npos) refuse("the array holds Python objects, which are never read");
    const bool known = descr.starts_with("|S") || descr.starts_with("<U");
    const char* end = descr.data() + descr.size();
    const auto number =
        known ? std::from_chars(descr.data() + 2, end, header.width) : std::from_chars_result{};
    if (!known || number.ec != std::errc() || number.ptr != end || header.width < 0 ||
        header.width > 1 << 16) {
      refuse(fmt::format("the type '{}' is not '|S…' or '<U…'", descr));
    }
    header.kind = descr[1];
  }
  void parse_shape(NpyHeader& header) {
    expect('(');
    while (!take(')')) {
      header.shape.push_back(number());
      if (header.shape.size() > 2) refuse("more than two axes");
      if (!take(',') && !(at_ < text_.size() && text_[at_] == ')')) refuse("')' was expected");
    }
    if (header.shape.empty()) refuse("no axis");
  }

  std::string_view text_;
  size_t offset_, at_ = 0;
  std::string_view place_;
};

NpyHeader parse_header(std::string_view bytes, std::string_view place) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = bytes.size() > 7 ? byte(6) : 0;
  const size_t begin = version == 1 ? 10 : 12;
  if (bytes.size() < begin)
    fail("npy", "{}: ends after {} bytes, in its header. Get the file again.", place, bytes.size());
  if (version < 1 || version > 3 || byte(7) != 0) {
    fail("npy", "{}: version {}.{} of the NumPy format, 1.0 to 3.0 are known.", place, version, byte(7));
  }
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kLongestHeader || length > bytes.size() - begin) {
    fail("npy",
         "{}: byte 8: the header claims {} bytes, {} follow. The file is cut or damaged: get it again.",
         place, length, bytes.size() - begin);
  }
  NpyHeader header = HeaderParser(bytes.substr(begin, length), begin, place).parse();
  header.end = begin + length;
  return header;
}

void append_utf8(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
             static_cast<char>(0x80 | (c & 63))};
  } else {
    text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
             static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
  }
}

// One string of the array; NumPy fills up with zeros.
std::string cell_text(std::string_view cell, char kind, std::string_view place, size_t offset) {
  std::string text;
  if (kind == 'S') {
    text = cell.substr(0, cell.find_last_not_of('\0') + 1);
  } else {
    size_t count = cell.size() / 4;
    const auto code_point = [&](size_t i) {
      uint32_t c = 0;
      for (size_t b = 4; b-- > 0;) c = c << 8 | static_cast<unsigned char>(cell[4 * i + b]);
      return c;
    };
    while (count > 0 && code_point(count - 1) == 0) --count;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t c = code_point(i);
      if (c > 0x10FFFF)
        fail("npy", "{}: byte {} is no character. The file is damaged.", place, offset + 4 * i);
      append_utf8(text, c);
    }
  }
  if (text.find('\0') != text.npos) fail("npy", "{}: byte {}: a zero inside a string.", place, offset);
  return text;
}

StringTable read_numpy(std::string_view bytes, std::string_view place) {
  const NpyHeader header = parse_header(bytes, place);
  const std::string_view data = bytes.substr(header.end);
  const int64_t rows = header.shape[0], columns = header.shape.size() > 1 ? header.shape[1] : 1;
  const int64_t width = header.width * (header.kind == 'U' ? 4 : 1);
  // Sizes are bounded one by one before they are multiplied; strings of no width would make rows of nothing.
  const auto most = static_cast<int64_t>(data.size());
  if (width == 0 || columns == 0 || columns > kMostColumns || rows > most || rows * columns > most / width ||
      rows * columns * width != most) {
    fail("npy",
         "{}: {} x {} strings of {} bytes are claimed, and {} bytes follow. The file is cut or damaged.",
         place, rows, columns, width, data.size());
  }
  StringTable table(static_cast<size_t>(rows), std::vector<std::string>(static_cast<size_t>(columns)));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<size_t>((header.fortran ? c * rows + r : r * columns + c) * width);
      table[static_cast<size_t>(r)][static_cast<size_t>(c)] =
          cell_text(data.substr(at, static_cast<size_t>(width)), header.kind, place, header.end + at);
    }
  }
  return table;
}

StringTable read_lines(std::string_view bytes, std::string_view place) {
  StringTable table;
  for (int64_t number = 1; !bytes.empty(); ++number) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    std::vector<std::string> row;
    for (size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
      const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      row.emplace_back(line.substr(at, end - at));
      at = end;
      const bool control = std::any_of(row.back().begin(), row.back().end(),
                                       [](char c) { return static_cast<unsigned char>(c) < 0x20; });
      if (control || row.size() > static_cast<size_t>(kMostColumns)) {
        fail("npy", "{} line {}: {}. Neither a table in plain text nor a NumPy file.", place, number,
             control ? "control characters" : fmt::format("more than {} columns", kMostColumns));
      }
    }
    if (!row.empty()) table.push_back(std::move(row));
  }
  return table;
}

}  // namespace

StringTable read_string_table(std::string_view bytes, std::string_view place) {
  return bytes.starts_with(kMagic) ? read_numpy(bytes, place) : read_lines(bytes, place);
}

}  // namespace lra
