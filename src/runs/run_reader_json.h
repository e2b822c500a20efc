// The JSON of a run folder, read with suspicion: types and ranges are checked, errors name file, line and
// key.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace lra {

// JSON of a file that may be damaged: parse_json, with numbers too large (1e999) refused.
inline Json parse_run_json(std::string_view text, const std::string& where) {
  try {
    return parse_json(text, where);
  } catch (const nlohmann::json::exception& e) {
    fail(where, "not valid JSON: {}. The file may be damaged: restore it or repeat the run.", e.what());
  }
}

// One JSON object whose members are read with their types and ranges checked.
class JsonMembers {
 public:
  JsonMembers(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) bad("", object, "an object");
  }
  const std::string& where() const { return where_; }

  // nullptr where the key is missing or null: a number that was not finite is written as null.
  const Json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  std::optional<double> number(const char* key, double low = -HUGE_VAL, double high = HUGE_VAL) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    if (!found->is_number()) bad(key, *found, "a number");
    const double value = found->get<double>();
    if (!std::isfinite(value) || value < low || value > high) {
      bad(key, *found, std::isinf(low) ? "a finite number" : fmt::format("{} to {}", low, high));
    }
    return value;
  }
  std::optional<double> fraction(const char* key) const { return number(key, 0, 1); }
  std::optional<int64_t> count(const char* key) const {
    const Json* found = find(key);
    if (!found) return std::nullopt;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{INT64_MAX});
    if (!fits || found->get<int64_t>() < 0) bad(key, *found, "a whole number from 0");
    return found->get<int64_t>();
  }
  uint64_t seed(const char* key) const {  // any 64 bits
    const Json* found = find(key);
    if (!found) return needed(std::optional<uint64_t>(), key);
    if (!found->is_number_unsigned()) bad(key, *found, "a whole number from 0");
    return found->get<uint64_t>();
  }
  int64_t needed_count(const char* key) const { return needed(count(key), key); }
  double needed_fraction(const char* key) const { return needed(fraction(key), key); }
  std::string text(const char* key) const {
    const Json* found = find(key);
    if (!found) return "";
    if (!found->is_string()) bad(key, *found, "a text");
    return found->get<std::string>();
  }
  std::string needed_text(const char* key) const {
    const std::string value = text(key);
    return value.empty() ? needed(std::optional<std::string>(), key) : value;
  }
  [[noreturn]] void bad(std::string_view key, const Json& found, std::string_view expected) const {
    std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 40) shown.replace(40, std::string::npos, "…");
    fail(where_, "{} {}, expected {}. The file may be damaged: restore it or repeat the run.",
         key.empty() ? "found" : fmt::format("'{}' is", key), shown, expected);
  }

 private:
  template <class T>
  T needed(const std::optional<T>& value, const char* key) const {
    if (value) return *value;
    fail(where_, "the key '{}' is missing. The file may be damaged: restore it or repeat the run.", key);
  }

  const Json& object_;
  std::string where_;
};

// Calls use(line, "FILE line N") for every line. A last line without its end that is not valid JSON was cut
// by a kill: it is passed over and told in `notes`, if there are notes to tell it in.
template <class Use>
void read_json_lines(const fs::path& path, std::vector<std::string>* notes, const Use& use) {
  const std::string text = read_text(path);
  int64_t number = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const std::string where = fmt::format("{} line {}", path.string(), ++number);
    const bool whole = end != text.npos;
    start = whole ? end + 1 : text.size();
    if (line.empty()) continue;
    Json parsed;
    try {
      parsed = parse_run_json(line, where);
    } catch (const Error&) {
      if (whole || !notes) throw;
      notes->push_back(
          fmt::format("{} line {} is cut (the process was killed while it wrote); it is left out.",
                      path.filename().string(), number));
      return;
    }
    use(JsonMembers(parsed, where));
  }
}

}  // namespace lra
