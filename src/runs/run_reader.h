// Reading a run folder back: config.yaml, env.json, metrics.jsonl, result.json, checkpoints, predictions.
//
//   const RunRecord run = read_run("runs/transformer-listops-lra-s0");
//   if (!run.result) …   // killed or still training: everything else is there
//
// Files of a run may come from another machine or a disk that was full: what is damaged is an Error that
// names file and line, keys that are not known are passed over, and a last line of metrics.jsonl that a kill
// cut in two is a note. Accuracies are fractions in 0..1 as in the files; only `PublishedRecord` is not.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "runs/departures.h"

namespace lra {

struct MetricsRecord {
  int64_t step = 0;
  std::string split;  // train, val, test
  std::optional<double> epoch, loss, accuracy, lr, examples_per_s, tokens_per_s, seconds;
};

struct CheckpointRecord {
  int64_t step = 0;
  std::optional<double> val_accuracy, test_accuracy, test_loss;
  int64_t test_examples = 0;
};

struct PublishedRecord {
  double percent = 0;
  std::string source;
};

struct BaselineRecord {
  std::string name;
  double accuracy = 0;
};

struct GroupRecord {
  std::string name;
  int64_t examples = 0, correct = 0;
};

struct ResultRecord {
  std::string task, task_version, variant, data_sha256, model, protocol, device, stop_reason;
  uint64_t seed = 0;
  std::optional<int64_t> parameters, steps, peak_memory_bytes;
  std::optional<double> wall_seconds, train_examples_per_s;
  std::optional<CheckpointRecord> best, last;
  std::optional<PublishedRecord> published;
  std::vector<BaselineRecord> baselines;
  std::vector<GroupRecord> groups;  // of the best checkpoint on the test split
  Departures departures;            // if any, `published` is not comparable
};

struct RunRecord {
  fs::path folder;
  std::string name;  // the folder's own name
  // What the run is about: from result.json, or from config.yaml while there is none.
  std::string model, task, task_version, variant, protocol, seed;
  std::string config_text;
  ConfigTree config;
  std::vector<std::pair<std::string, std::string>>
      env;                               // in the file's order; lists joined as a command line
  std::vector<MetricsRecord> metrics;    // steps ascend within each split
  std::optional<ResultRecord> result;    // none: the run has not finished
  std::vector<std::string> checkpoints;  // "best", "last"
  std::vector<std::string> predictions;  // splits that have them
  std::vector<std::string> notes;        // what a reader of the numbers should know

  std::string env_value(std::string_view key) const;  // "" where the file does not say
};

struct PredictionRecord {
  int64_t index = 0, label = 0, prediction = 0;
};
struct PredictionsRecord {
  std::string checkpoint;              // "best", "last" or "" where the file does not say
  std::vector<PredictionRecord> rows;  // by index, ascending
};

bool is_run_folder(const fs::path& folder);  // it holds a config.yaml

// A RUN argument: a run folder, or the name of one under `runs`.
fs::path find_run(std::string_view argument, const fs::path& runs);

RunRecord read_run(const fs::path& folder);
PredictionsRecord read_predictions(const fs::path& folder, std::string_view split);

// A leaf of the configuration by its dotted key; nullptr where there is none.
const ConfigTree* config_leaf(const ConfigTree& tree, std::string_view dotted);

}  // namespace lra
