// Errors, written for the person who reads them: where, what was found, what was expected, what to do next.
//
//   fail("listops", "train.tsv line {}: label '{}' is not in 0..9. Compare it with 'lra data verify
//   listops'.", n, s);
//
// `Error` is the user's mistake or bad input (exit code 1). Everything else that escapes is ours (exit code
// 2).
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace lra {

class Error : public std::runtime_error {
 public:
  Error(std::string_view where, std::string_view what)
      : std::runtime_error(fmt::format("[{}] {}", where, what)) {}
};

// The run was interrupted and its checkpoint saved (exit code 130).
class Interrupted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(where, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lra
