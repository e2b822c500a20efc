#include "base/json.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace lra {

Json parse_json(std::string_view text, std::string_view where) {
  constexpr int kDeepest = 64;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) fail(where, "JSON nested deeper than {} levels.", kDeepest);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      fail(where, "the key {} appears twice in one JSON object.", parsed.dump());
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const nlohmann::json::parse_error& e) {
    fail(where, "not valid JSON at byte {}: {}. The file may be truncated or damaged.", e.byte, e.what());
  } catch (const nlohmann::json::exception& e) {  // a number beyond all range
    fail(where, "not valid JSON: {}.", e.what());
  }
}

Json read_json(const std::filesystem::path& path) { return parse_json(read_text(path), path.string()); }

namespace {

// What an int64_t can be, exactly: converting any other number is undefined.
bool is_whole(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{INT64_MAX};
  if (!value.is_number_float()) return true;  // or no number, which the conversion finds
  const auto x = value.get<double>();
  return std::abs(x) <= 0x1p53 && x == std::trunc(x);
}

}  // namespace

template <class T>
T json_get(const Json& object, const char* key, std::string_view where) {
  if (!object.is_object() || !object.contains(key)) fail(where, "the key '{}' is missing.", key);
  const Json& value = object.at(key);
  if (std::is_same_v<T, int64_t> && !is_whole(value)) {
    fail(where, "'{}' is {}, which is no whole number of 64 bits.", key, value.dump());
  }
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    fail(where, "'{}' is {}, which has the wrong type.", key, value.dump());
  }
}
template int64_t json_get(const Json&, const char*, std::string_view);
template double json_get(const Json&, const char*, std::string_view);
template bool json_get(const Json&, const char*, std::string_view);
template std::string json_get(const Json&, const char*, std::string_view);

}  // namespace lra
