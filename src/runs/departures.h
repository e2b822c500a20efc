// Where a run departs from the preset of its protocol, task and model: why its numbers are not comparable
// with that protocol's. In result.json: "departures": {"model.layers": [6, 1]}, the preset's value and the
// run's.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace lra {

struct Departure {
  std::string key;   // dotted
  Json preset, run;  // null: has no such key
};
using Departures = std::vector<Departure>;

Json departures_json(const Departures& departures);
Departures departures_from_json(const Json& json, const std::string& where);  // of a file that may be damaged
// "model.layers 1 instead of 6, train.batch 4 instead of 32 and 3 more": at most `most` are named.
std::string departures_text(const Departures& departures, size_t most = SIZE_MAX);

}  // namespace lra
