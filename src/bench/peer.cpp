#include "bench/peer.h"

#include <ATen/Parallel.h>

#include "base/error.h"
#include "bench/child.h"

namespace lra {
// Runs a peer script as a process of its own; its last line of output is a JSON object.
BenchRow run_peer(const BenchCase& c, const std::string& mode, const BenchOptions& options,
                  const std::string& device, const std::string& dtype) {
  BenchRow row{c, "torch-" + mode, device, dtype};
  const fs::path script = options.peers_folder / (c.model + ".py");
  if (!fs::exists(script)) {
    row.problem = script.string() + " is not there; run from the source folder";
    return row;
  }
  const std::string python = !options.python.empty()          ? options.python
                             : fs::exists(".venv/bin/python") ? ".venv/bin/python"
                                                              : "python3";
  const EncoderConfig& e = c.sizes;
  std::vector<std::string> command = {python, script.string()};
  const auto add = [&](const char* option, const auto& value) {
    command.emplace_back(option);
    command.push_back(fmt::format("{}", value));
  };
  add("--mode", mode);
  add("--device", device.starts_with("cuda") ? "cuda" : device);
  add("--dtype", dtype);
  add("--layers", e.layers);
  add("--width", e.width);
  add("--heads", e.heads);
  add("--ff", e.ff_width);
  add("--length", e.max_length);
  add("--batch", c.batch);
  add("--vocab", e.vocab_size);
  add("--classes", e.num_classes);
  add("--dropout", e.dropout);
  add("--attention-dropout", e.attention_dropout);
  add("--pool", e.pooling);
  add("--phase", c.phase);
  add("--threads", at::get_num_threads());
  add("--repeats", options.repeats);
  add("--seconds", options.seconds);
  std::optional<Json> output;
  try {
    output = run_for_json(command);
  } catch (const Error& error) {
    row.problem = error.what();
    return row;
  }
  if (!output) {
    row.problem = "the peer failed; its message is above. `make bench` installs what it needs";
    return row;
  }
  const Json& j = *output;
  row.ms_median = json_get<double>(j, "ms_median", script.string());
  row.ms_p10 = json_get<double>(j, "ms_p10", script.string());
  row.ms_p90 = json_get<double>(j, "ms_p90", script.string());
  row.tokens_per_s = json_get<double>(j, "tokens_per_s", script.string());
  row.peak_bytes = json_get<int64_t>(j, "peak_bytes", script.string());
  row.repeats = json_get<int64_t>(j, "repeats", script.string());
  return row;
}

}  // namespace lra
