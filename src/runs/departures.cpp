#include "runs/departures.h"

#include <algorithm>

#include "runs/run_reader_json.h"

namespace lra {
namespace {

std::string shown(const Json& value) {
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) return value.get<std::string>();
  return value.is_null() ? "nothing" : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json departures_json(const Departures& departures) {
  Json json = Json::object();
  for (const Departure& d : departures) json[d.key] = {d.preset, d.run};
  return json;
}

Departures departures_from_json(const Json& json, const std::string& where) {
  const JsonMembers in(json, where);
  Departures departures;
  for (const auto& [key, values] : json.items()) {
    const auto plain = [](const Json& value) { return value.is_primitive(); };
    if (!values.is_array() || values.size() != 2 || !std::all_of(values.begin(), values.end(), plain)) {
      in.bad(key, values, "the preset's value and the run's");
    }
    departures.push_back({key, values[0], values[1]});
  }
  return departures;
}

std::string departures_text(const Departures& departures, size_t most) {
  std::string text;
  for (size_t i = 0; i < departures.size(); ++i) {
    if (i == most) return text + fmt::format(" and {} more", departures.size() - most);
    const Departure& d = departures[i];
    text += fmt::format("{}{} {} instead of {}", i == 0 ? "" : ", ", d.key, shown(d.run), shown(d.preset));
  }
  return text;
}

}  // namespace lra
