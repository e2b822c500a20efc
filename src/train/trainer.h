// A whole run: data, model, steps, evaluations, checkpoints, the final test, all written to its folder.
#pragma once
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "runs/run_folder.h"
#include "train/run_config.h"

namespace lra {

struct TrainRequest {
  RunConfig config;
  fs::path data, run;
  RunMode mode = RunMode::kNew;
  std::vector<std::string> command;  // for env.json
};

// Returns result.json. Throws Interrupted after SIGINT or SIGTERM, with the checkpoint saved.
Json train(TrainRequest request);

// What a run would be, without starting it: the configuration, resolved in place, parameter count and
// estimated memory.
Json describe_run(RunConfig& config, const fs::path& data);

// A trained model and a split of its data → metrics (and predictions/SPLIT.jsonl or `predictions`, where
// asked for).
struct EvalRequest {
  fs::path run, data;
  std::string split = "test", checkpoint = "best", device, dtype;
  bool write_predictions = false;
  fs::path predictions;  // empty: the run's own folder
};
Json evaluate_run(const EvalRequest& request);

Json environment(const std::string& device, const std::vector<std::string>& command);

}  // namespace lra
