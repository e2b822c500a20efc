// How fast data sets are made, imported and opened on this machine: random files in the published layouts,
// written to a temporary folder, at sizes that keep the whole under a minute or two on two cores.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace lra {

struct DatasetRow {
  std::string task, what;  // "pathfinder", "make"
  double amount = 0;       // of `unit`
  std::string unit;        // "images", "MB"
  double seconds = 0;
};

std::vector<DatasetRow> run_dataset_bench();
Json dataset_json(const std::vector<DatasetRow>& rows);

}  // namespace lra
