#include "report/html.h"

#include <cstdint>

namespace lra {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The length of the valid UTF-8 sequence that begins at `at`; 0 where there is none.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
    return follows(at + 1) && follows(at + 2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90, beyond = first == 0xf4 && second > 0x8f;
    return follows(at + 1) && follows(at + 2) && follows(at + 3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

std::string escape_ascii(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\n':
    case '\t':
      return std::string(1, c);
    default:
      return static_cast<uint8_t>(c) < 0x20 || c == 0x7f ? kReplacement : std::string(1, c);
  }
}

std::string cell_html(const HtmlCell& cell, bool in_header) {
  const bool heading = in_header || cell.heading;
  std::string tag = heading ? "th" : "td";
  std::string attributes;
  if (heading)
    attributes +=
        in_header ? (cell.columns > 1 ? " scope=\"colgroup\"" : " scope=\"col\"") : " scope=\"row\"";
  if (*cell.css) attributes += fmt::format(" class=\"{}\"", cell.css);
  if (cell.columns > 1) attributes += fmt::format(" colspan=\"{}\"", cell.columns);
  if (cell.rows > 1) attributes += fmt::format(" rowspan=\"{}\"", cell.rows);
  return fmt::format("<{}{}>{}</{}>", tag, attributes, cell.content.text, tag);
}

std::string rows_html(const std::vector<std::vector<HtmlCell>>& rows, bool in_header) {
  std::string html;
  for (const auto& row : rows) {
    html += "<tr>";
    for (const HtmlCell& cell : row) html += cell_html(cell, in_header);
    html += "</tr>\n";
  }
  return html;
}

}  // namespace

std::string escape_text(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      out += kReplacement;
    } else if (length == 1) {
      out += escape_ascii(text[at]);
    } else {
      out += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

Html html_table(const Html& caption, const std::vector<std::vector<HtmlCell>>& header,
                const std::vector<std::vector<HtmlCell>>& rows, const char* css) {
  // The region can be focused, so that a keyboard can scroll it.
  return {fmt::format(
      "<div class=\"scroll\" role=\"region\" aria-label=\"Table\" tabindex=\"0\">\n"
      "<table class=\"{}\">\n<caption><span>{}</span></caption>\n<thead>\n{}</thead>\n<tbody>\n{}</tbody>\n"
      "</table>\n</div>\n",
      css, caption.text, rows_html(header, true), rows_html(rows, false))};
}

}  // namespace lra
