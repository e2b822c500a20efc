#include "bench/peer.h"

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/signals.h"
#include "bench/child.h"

namespace lra {
namespace {

std::vector<std::string> peer_command(const fs::path& script, const BenchCase& c, const std::string& mode,
                                      const BenchOptions& options, const std::string& device,
                                      const std::string& dtype) {
  const std::string python = !options.python.empty()          ? options.python
                             : fs::exists(".venv/bin/python") ? ".venv/bin/python"
                                                              : "python3";
  const EncoderConfig& e = c.sizes;
  std::vector<std::string> command = {python, script.string(), "--wait"};
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
  return command;
}

void fill(BenchRow& row, const std::optional<Json>& output, const fs::path& script) {
  if (!output) {
    row.problem = "the peer failed; its message is above. `make bench` installs what it needs";
    return;
  }
  const Json& j = *output;
  row.problem.clear();
  row.ms_median = json_get<double>(j, "ms_median", script.string());
  row.ms_p10 = json_get<double>(j, "ms_p10", script.string());
  row.ms_p90 = json_get<double>(j, "ms_p90", script.string());
  row.tokens_per_s = json_get<double>(j, "tokens_per_s", script.string());
  row.peak_bytes = json_get<int64_t>(j, "peak_bytes", script.string());
  row.repeats = json_get<int64_t>(j, "repeats", script.string());
}

std::optional<Json> measured(Child& peer) {
  if (peer.says("ready")) peer.tell("go");
  return peer.result();
}

}  // namespace

std::vector<BenchRow> run_peers(const BenchCase& c, const BenchOptions& options, const std::string& device,
                                const std::string& dtype) {
  std::vector<BenchRow> rows;
  const fs::path script = options.peers_folder / (c.model + ".py");
  for (const auto& mode : options.peer_modes) rows.push_back({c, "torch-" + mode, device, dtype});
  if (!fs::exists(script)) {
    for (auto& row : rows) row.problem = script.string() + " is not there; run from the source folder";
    return rows;
  }
  const auto start = [&](const std::string& mode) {
    return Child(peer_command(script, c, mode, options, device, dtype));
  };
  std::vector<Child> peers;
  for (const auto& mode : options.peer_modes) peers.push_back(start(mode));
  // All of them, before the first is measured.
  std::vector<bool> ready;
  for (auto& peer : peers) ready.push_back(peer.says("ready"));
  for (size_t i = 0; i < peers.size(); ++i) {
    if (ready[i]) peers[i].tell("go");
    fill(rows[i], peers[i].result(), script);
  }
  peers.clear();
  // Together they may have needed more memory than one does.
  for (size_t i = 0; i < rows.size(); ++i) {
    if (ready[i] || interrupted()) continue;
    Child again = start(options.peer_modes[i]);
    fill(rows[i], measured(again), script);
  }
  return rows;
}

}  // namespace lra
