// Data published as three TSV files, one example a line, in the Long Range Arena's release or apart from it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/tsv.h"
#include "tasks/task.h"

namespace lra {

struct TsvLayout {
  std::string task;
  std::string folder;    // in the release: "listops-1000"
  std::string files[3];  // in it, in the order of kSplits: "basic_train.tsv"
  std::string header;    // the first line, tabs included; empty where there is none
  SplitCounts published;
};

struct TsvExample {
  std::vector<uint16_t> first, second;
  int64_t label = 0;
};

// Lines are parsed by many threads and arrive in the order of the file. `parse` overwrites its second
// argument; it throws, naming the line's place, and may have been given a line more than once. Gives notes:
// where the files were and how many examples each had. Other counts than the published ones are a warning.
using TsvParse = std::function<void(const Line&, TsvExample&)>;
Json import_tsv(const TsvLayout& layout, const fs::path& from, const TsvParse& parse, bool two_documents,
                DataSink& out);

// "0", "1", "0.0", "1.0": 0 or 1; anything else is an error of `task` with the place.
int64_t parse_binary_label(std::string_view text, std::string_view task, const Place& place);

}  // namespace lra
