// The configuration of a run, resolved from its layers. Written to config.yaml in full, it repeats the run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/json.h"
#include "nn/encoder_config.h"
#include "runs/departures.h"

namespace lra {

struct TrainConfig {
  int64_t steps = 5000;       // length of the schedule
  int64_t stop_after = 0;     // stop earlier, with the schedule unchanged (--steps); 0: at `steps`
  int64_t batch = 32;         // examples an update
  int64_t micro_batches = 1;  // parts a batch is computed in
  std::string shuffle = "examples";
  std::string schedule = "rsqrt";
  double learning_rate = 0.05;
  int64_t warmup = 1000;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, clip = 0;
  int64_t eval_every = 50, eval_batch = 32, log_every = 10, checkpoint_every = 200;
  int64_t device_data_mb = 8192;  // GPU memory granted to the training data
  int64_t patience = 0;  // evaluations without a better validation accuracy before an early stop; 0: never

  void visit(Fields& f);
  int64_t last_step() const { return stop_after > 0 ? std::min(stop_after, steps) : steps; }
};

struct PublishedConfig {
  double value = 0;  // percent; 0: none
  std::string source;

  void visit(Fields& f);
};

struct RunConfig {
  std::string protocol = "lra", task, variant = "default", model, device = "auto", dtype = "auto";
  int64_t seed = 0;
  bool deterministic = false;  // the same bits in every run on the same GPU; a CPU gives them anyway
  EncoderConfig encoder;
  ConfigTree model_options;  // the section named after the model, complete
  TrainConfig train;
  PublishedConfig published;

  ConfigTree tree();  // in the order of config.yaml
  Json json();        // the same with types
};

struct ConfigRequest {
  std::string model, task;  // may be empty where --config names them
  std::optional<std::string> protocol;
  std::string config_file;
  std::vector<std::string> set;
  std::optional<int64_t> seed, steps;
  std::string device, dtype;  // empty: as configured
  bool deterministic = false;
};
// Struct defaults < preset of the protocol < --config < --set < options of their own. Every key, type and
// range is checked.
RunConfig resolve_config(const ConfigRequest& request);
// From a run's own config.yaml.
RunConfig read_run_config(const std::string& yaml, const std::string& where);
// From the preset of its protocol, task and model, in what may move a number or what stands beside it. None
// where the protocol has no preset for the task (`open`).
Departures departures(RunConfig config);
// Every key of config.yaml with its default.
std::vector<FieldInfo> config_fields(const std::string& model);

std::vector<std::string> protocols();
// Protocols that have a preset for the task.
std::vector<std::string> protocols_of(std::string_view task);

}  // namespace lra
