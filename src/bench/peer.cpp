#include "bench/peer.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/log.h"
#include "bench/child.h"

namespace lra {
namespace {

std::string interpreter(const BenchOptions& options) {
  if (!options.python.empty()) return options.python;
  return fs::exists(".venv/bin/python") ? ".venv/bin/python" : "python3";
}

fs::path script_of(const BenchCase& c, const BenchOptions& options) {
  return options.peers_folder / (c.model + ".py");
}

std::vector<std::string> peer_command(const fs::path& script, const BenchCase& c, const std::string& mode,
                                      const BenchOptions& options, const std::string& device,
                                      const std::string& dtype) {
  const EncoderConfig& e = c.sizes;
  std::vector<std::string> command = {interpreter(options), script.string(), "--wait"};
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

// What a case asks for and bench/peers/peer.py does not have: it would be compared with something else.
std::string beyond_peers(const BenchCase& c) {
  const EncoderConfig& e = c.sizes;
  const ConfigTree* own = c.set.find(c.model);
  if (own && !own->children.empty()) return fmt::format("{}.{}", c.model, own->children.front().key);
  if (e.qkv_width != e.width) return "a model.qkv_width other than model.width";
  if (e.positions != "sinusoidal") return "model.positions=" + e.positions;
  if (e.pooling == "first") return "model.pooling=first";
  return e.causal ? "model.causal" : "";
}

// As each peer will: torch, and the release of it that peers expect.
void check_interpreter(const BenchOptions& options) {
  const std::string python = interpreter(options);
  const std::string script = fmt::format(
      "import sys; sys.argv = ['{0}/peer.py']; sys.path.insert(0, '{0}'); import peer; print('{{}}')",
      options.peers_folder.string());
  bool works = false;
  try {
    works = run_for_json({python, "-c", script}).has_value();
  } catch (const Error& error) {
    warn("{}", error.what());
  }
  if (!works)
    fail(
        "bench",
        "--peers: {} cannot run PyTorch's models; why is said above. Name an interpreter that has torch with "
        "--python; `make bench` installs one.",
        python);
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
      read_numbers(row_, *found, where_);
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

void check_peers(const std::vector<BenchCase>& cases, const BenchOptions& options,
                 const std::string& device) {
  if (!fs::is_directory(options.peers_folder))
    fail("bench",
         "--peers: there is no folder {} in {}. Start lra in its source folder, where the peers are.",
         options.peers_folder.string(), fs::current_path().string());
  const auto has_peer = [&](const BenchCase& c) { return fs::exists(script_of(c, options)); };
  if (std::none_of(cases.begin(), cases.end(), has_peer))
    fail("bench", "--peers: {} is not there, nor is a peer of another case. Leave out --peers.",
         script_of(cases.front(), options).string());
  for (const auto& c : cases) {
    const std::string missing = has_peer(c) ? beyond_peers(c) : "";
    if (!missing.empty())
      fail("bench", "--peers: the peer of {} does not have {}. Leave out --peers or change --set.", c.model,
           missing);
  }
  const auto& modes = options.peer_modes;
  if (device == "cpu" && std::find(modes.begin(), modes.end(), "compile-graphs") != modes.end())
    fail("bench", "--peer-modes compile-graphs is for CUDA devices. Use compile on a CPU.");
  check_interpreter(options);
}

std::vector<BenchRow> run_peers(const BenchCase& c, const BenchOptions& options, const std::string& device,
                                const std::string& dtype) {
  std::vector<BenchRow> rows;
  const fs::path script = script_of(c, options);
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
    const fs::path script = script_of(cases[i], options);
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
