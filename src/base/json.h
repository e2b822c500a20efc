// JSON with errors that name the file and the position.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lra {

using Json = nlohmann::ordered_json;

// Refuses duplicate keys, deep nesting (over 64 levels) and anything after the document.
Json parse_json(std::string_view text, std::string_view where);
Json read_json(const std::filesystem::path& path);

// A member of an object with its type checked: json_get<int64_t>(j, "step", "state.json").
template <class T>
T json_get(const Json& object, const char* key, std::string_view where);

}  // namespace lra
