#include "base/table.h"

#include <algorithm>

#include <fmt/format.h>

namespace lra {
namespace {

// Columns on a terminal: UTF-8 continuation bytes take none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// "17.0", "1 035", "-3", "98.4 %", "–": what reads best when it ends in one column.
bool looks_numeric(const std::string& text) {
  if (text.empty() || text == "-" || text == "–") return true;
  const size_t first = text.find_first_not_of("+-.± ");
  return first != text.npos && text[first] >= '0' && text[first] <= '9' &&
         text.find_first_not_of("0123456789.,+-eExs%kMG ±/") == text.npos;
}

}  // namespace

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t c = 0; c < header.size(); ++c) {
    size_t width = width_of(header[c]);
    bool numeric = c > 0 && !rows.empty();
    for (const auto& row : rows) {
      if (c >= row.size()) continue;
      width = std::max(width, width_of(row[c]));
      numeric = numeric && looks_numeric(row[c]);
    }
    widths.push_back(width);
    right.push_back(numeric);
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size() && c < widths.size(); ++c) {
      const std::string blanks(widths[c] - width_of(cells[c]), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? blanks + cells[c] : cells[c] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line(header);
  for (const auto& row : rows) add_line(row);
  return out;
}

}  // namespace lra
