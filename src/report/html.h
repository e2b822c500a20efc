// HTML as a type of its own: text from a file becomes Html only through `escape`, so nothing unescaped
// reaches a page.
//
//   html_table(escape("Results"), {{{escape("Model")}, {escape("Accuracy"), "number"}}},
//              {{{escape(run.model), "", true}, {escape("36.37"), "number"}}});
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace lra {

struct Html {
  std::string text;
  Html& operator+=(const Html& more) {
    text += more.text;
    return *this;
  }
};
inline Html operator+(Html a, const Html& b) { return a += b; }

// &, <, >, quotes; control characters and bytes that are not UTF-8 become U+FFFD.
std::string escape_text(std::string_view text);
inline Html escape(std::string_view text) { return {escape_text(text)}; }

// Markup written here in the program; arguments are Html and put in as they are.
template <class>
using HtmlText = const std::string&;
template <class... Args>
Html markup(fmt::format_string<HtmlText<Args>...> format, const Args&... args) {
  return {fmt::format(format, args.text...)};
}

struct HtmlCell {
  Html content;
  const char* css = "";       // class
  bool heading = false;       // a <th scope=row> in the body, always a <th> in the header
  int columns = 1, rows = 1;  // spans
};

// A table with its caption, inside a region that scrolls by itself where the window is narrow.
Html html_table(const Html& caption, const std::vector<std::vector<HtmlCell>>& header,
                const std::vector<std::vector<HtmlCell>>& rows, const char* css = "");

}  // namespace lra
