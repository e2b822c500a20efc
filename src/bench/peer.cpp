#include "bench/peer.h"

#include <cstdio>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/log.h"

namespace lra {
namespace {

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

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
  const std::string command = fmt::format(
      "{} {} --mode {} --device {} --dtype {} --layers {} --width {} --heads {} --ff {} --length {} --batch "
      "{} --vocab {} "
      "--classes {} --dropout {} --attention-dropout {} --pool {} --phase {} --threads {} --repeats {} "
      "--seconds {}",
      shell_quoted(python), shell_quoted(script.string()), mode, device.starts_with("cuda") ? "cuda" : device,
      dtype, e.layers, e.width, e.heads, e.ff_width, e.max_length, c.batch, e.vocab_size, e.num_classes,
      e.dropout, e.attention_dropout, e.pooling, c.phase, at::get_num_threads(), options.repeats,
      options.seconds);
  verbose("{}", command);
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) fail("bench", "cannot start: {}", command);
  std::string output;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
  if (pclose(pipe) != 0) {
    row.problem = "the peer failed; its message is above. `make bench` installs what it needs";
    return row;
  }
  while (!output.empty() && output.back() == '\n') output.pop_back();
  Json j;
  try {
    j = parse_json(output.substr(output.rfind('\n') + 1), script.string());
  } catch (const Error& error) {
    row.problem = error.what();
    return row;
  }
  row.ms_median = json_get<double>(j, "ms_median", script.string());
  row.ms_p10 = json_get<double>(j, "ms_p10", script.string());
  row.ms_p90 = json_get<double>(j, "ms_p90", script.string());
  row.tokens_per_s = json_get<double>(j, "tokens_per_s", script.string());
  row.peak_bytes = json_get<int64_t>(j, "peak_bytes", script.string());
  row.repeats = json_get<int64_t>(j, "repeats", script.string());
  return row;
}

}  // namespace lra
