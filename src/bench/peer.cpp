#include "bench/peer.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/log.h"
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

void fill(BenchRow& row, const Json& j, const std::string& where) {
  row.ms_median = json_get<double>(j, "ms_median", where);
  row.ms_p10 = json_get<double>(j, "ms_p10", where);
  row.ms_p90 = json_get<double>(j, "ms_p90", where);
  row.tokens_per_s = json_get<double>(j, "tokens_per_s", where);
  row.peak_bytes = json_get<int64_t>(j, "peak_bytes", where);
  row.repeats = json_get<int64_t>(j, "repeats", where);
}

// A peer in one mode, and the row it fills. What goes wrong with one is said there, and no other's loss.
class Peer {
 public:
  Peer(std::vector<std::string> command, std::string where, BenchRow& row)
      : command_(std::move(command)), where_(std::move(where)), row_(row) {}

  void start() {
    guarded([&] { child_.emplace(command_); });
  }
  bool gets_ready() {
    guarded([&] { ready_ = child_ && child_->says("ready"); });
    return ready_;
  }
  void measure() {
    guarded([&] {
      if (ready_) child_->tell("go");
      const std::optional<Json> found = child_ ? child_->result() : std::nullopt;
      if (!found)
        fail("bench", "{} failed; its message is above. `make bench` installs what it needs", where_);
      fill(row_, *found, where_);
    });
    child_.reset();
    ready_ = false;
  }
  bool failed() const { return !row_.problem.empty(); }
  void forget() { row_.problem.clear(); }

 private:
  template <class Work>
  void guarded(const Work& work) {
    if (failed()) return;
    try {
      work();
    } catch (const Error& error) {
      row_.problem = error.what();
    }
  }

  std::vector<std::string> command_;
  std::string where_;
  BenchRow& row_;
  std::optional<Child> child_;
  bool ready_ = false;
};

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
  std::vector<Peer> peers;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& mode = options.peer_modes[i];
    peers.emplace_back(peer_command(script, c, mode, options, device, dtype),
                       fmt::format("{} --mode {}", script.string(), mode), rows[i]);
  }
  const auto one_by_one = [](Peer& peer) {
    peer.start();
    peer.gets_ready();
    peer.measure();
  };
  // On a CPU they would take each other's memory, and the cores that they compile with.
  if (!device.starts_with("cuda") || peers.size() == 1) {
    for (auto& peer : peers) one_by_one(peer);
    return rows;
  }
  for (auto& peer : peers) peer.start();
  bool any = false;
  for (auto& peer : peers) any = peer.gets_ready() || any;  // all of them, before the first is measured
  for (auto& peer : peers) peer.measure();
  if (!any) return rows;
  // Together they may have needed more memory than one does.
  for (auto& peer : peers) {
    if (!peer.failed()) continue;
    peer.forget();
    one_by_one(peer);
  }
  return rows;
}

void compile_peers(const std::vector<BenchCase>& cases, const std::vector<std::string>& dtypes,
                   const BenchOptions& options, const std::string& device) {
  std::vector<std::vector<std::string>> commands;
  for (size_t i = 0; i < cases.size(); ++i) {
    const fs::path script = options.peers_folder / (cases[i].model + ".py");
    if (cases[i].unfused || !fs::exists(script)) continue;
    for (const auto& mode : options.peer_modes) {
      if (mode != "eager")
        commands.push_back(peer_command(script, cases[i], mode, options, device, dtypes[i]));
    }
  }
  // Those of a single case get ready side by side anyway. A peer compiles with several processes of its own.
  if (!device.starts_with("cuda") || cases.size() < 2) return;
  const auto together = std::clamp<size_t>(static_cast<size_t>(at::get_num_threads()) / 2, 1, 8);
  for (size_t first = 0; first < commands.size(); first += together) {
    const size_t end = std::min(first + together, commands.size());
    info("compiling peers, {} to {} of {}", first + 1, end, commands.size());
    std::vector<Child> children;
    try {
      for (size_t i = first; i < end; ++i) children.emplace_back(commands[i]);
    } catch (const Error&) {
      return;  // no interpreter
    }
    for (auto& child : children) child.says("ready");
  }
}

}  // namespace lra
