#include "bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/signals.h"
#include "base/torch_compat.h"
#include "models/model.h"
#include "train/step_engine.h"
#include "train/trainer.h"

namespace lra {
namespace {

using Clock = std::chrono::steady_clock;

Batch random_batch(const BenchCase& c, const torch::Device& device) {
  Rng rng(0, stream_id("bench.tokens"));
  Batch batch;
  batch.rows = c.batch;
  batch.real_tokens = c.batch * c.sizes.max_length;
  batch.input.full = true;
  batch.input.tokens = torch::empty({c.batch, c.sizes.max_length}, torch::kInt);
  auto* tokens = batch.input.tokens.mutable_data_ptr<int32_t>();
  for (int64_t i = 0; i < batch.input.tokens.numel(); ++i) {
    tokens[i] = static_cast<int32_t>(1 + rng.below(static_cast<uint32_t>(c.sizes.vocab_size - 1)));
  }
  batch.input.lengths = torch::full({c.batch}, c.sizes.max_length, torch::kInt);
  batch.labels = torch::empty({c.batch}, torch::kLong);
  for (int64_t r = 0; r < c.batch; ++r) {
    batch.labels.mutable_data_ptr<int64_t>()[r] = rng.below(static_cast<uint32_t>(c.sizes.num_classes));
  }
  return batch.to(device);
}

// Our side of a case, kept alive between the two rounds of measuring.
class OurCase {
 public:
  OurCase(const BenchCase& c, const torch::Device& device, torch::Dtype compute)
      : case_(c),
        device_(device),
        model_(build(c, compute)),
        state_(make_train_state(*model_, device, torch::kFloat)),
        batch_(random_batch(c, device)) {
    engine_ = make_eager_engine(*model_, state_, {}, {}, 0);
  }

  void measure(double seconds, int64_t repeats) {
    for (int i = 0; i < 2; ++i) once();
    synchronize(device_);
    const auto began = Clock::now();
    for (int64_t i = 0; i < repeats; ++i) {
      if (interrupted()) throw Interrupted("benchmark interrupted");
      const auto start = Clock::now();
      once();
      synchronize(device_);
      samples_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      if (i >= 2 && std::chrono::duration<double>(Clock::now() - began).count() > seconds) break;
    }
  }

  const std::vector<double>& samples() const { return samples_; }

 private:
  static std::shared_ptr<Encoder> build(const BenchCase& c, torch::Dtype compute) {
    const Model& model = find_model(c.model);
    auto encoder = make_encoder(model, c.sizes, *model.options(), 0);
    encoder->set_compute_type(compute);
    return encoder;
  }

  void once() {
    if (case_.phase == "train") {
      engine_->step({&batch_, 1});
    } else {
      const torch::InferenceMode inference;
      model_->forward(batch_, {});
    }
  }

  BenchCase case_;
  torch::Device device_;
  std::shared_ptr<Encoder> model_;
  TrainState state_;
  Batch batch_;
  std::unique_ptr<StepEngine> engine_;
  std::vector<double> samples_;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

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

void run_case(const BenchCase& c, const BenchOptions& options, const torch::Device& device,
              const std::string& dtype, std::vector<BenchRow>& rows) {
  const std::string title =
      fmt::format("{}{} L {} batch {} dropout {} {}", c.name.empty() ? "" : c.name + ": ", c.model,
                  c.sizes.max_length, c.batch, c.sizes.dropout, c.phase);
  info("{}", title);
  std::vector<BenchRow> peers;
  reset_peak_memory(device);
  BenchRow ours{c, "lra", device.str(), dtype};
  {
    OurCase our_case(c, device, dtype == "bf16" ? torch::kBFloat16 : torch::kFloat);
    our_case.measure(options.seconds / 2, options.repeats);
    if (options.peers) {
      for (const auto& mode : options.peer_modes)
        peers.push_back(run_peer(c, mode, options, device.str(), dtype));
    }
    our_case.measure(options.seconds / 2, options.repeats);
    const auto& samples = our_case.samples();
    ours.ms_median = quantile(samples, 0.5);
    ours.ms_p10 = quantile(samples, 0.1);
    ours.ms_p90 = quantile(samples, 0.9);
    ours.repeats = static_cast<int64_t>(samples.size());
    ours.tokens_per_s = static_cast<double>(c.batch * c.sizes.max_length) / ours.ms_median * 1e3;
    ours.peak_bytes = peak_memory_bytes(device);
  }
  rows.push_back(ours);
  for (auto& peer : peers) {
    if (peer.problem.empty()) peer.ratio_to_lra = peer.ms_median / ours.ms_median;
    rows.push_back(peer);
  }
}

BenchCase foundation_case(const char* name, int64_t N, int64_t D, int64_t H, int64_t F, int64_t L, int64_t B,
                          int64_t V, int64_t C, double dropout) {
  BenchCase c;
  c.name = name;
  c.batch = B;
  EncoderConfig& e = c.sizes;
  e.layers = N, e.width = D, e.heads = H, e.qkv_width = D, e.ff_width = F, e.max_length = L, e.vocab_size = V,
  e.num_classes = C, e.dropout = dropout, e.attention_dropout = dropout;
  return c;
}

}  // namespace

std::vector<std::string> bench_suites() { return {"foundation"}; }

std::vector<BenchCase> bench_suite(const std::string& name) {
  if (name != "foundation")
    fail("bench", "there is no suite '{}'. {}", name, suggestion(name, bench_suites()));
  std::vector<BenchCase> cases;
  for (const double dropout : {0.0, 0.1}) {  // the released configurations train with 0.1
    cases.push_back(foundation_case("tiny", 2, 64, 4, 128, 128, 32, 17, 10, dropout));
    cases.push_back(foundation_case("text", 4, 256, 4, 1024, 1024, 4, 257, 2, dropout));
    cases.push_back(foundation_case("listops", 4, 512, 8, 1024, 2000, 2, 17, 10, dropout));
  }
  return cases;
}

std::vector<BenchRow> run_bench(const std::vector<BenchCase>& cases, const BenchOptions& options) {
  const torch::Device device = parse_device(options.device);
  const std::string dtype = !options.dtype.empty() ? options.dtype : device.is_cuda() ? "bf16" : "fp32";
  if (dtype == "bf16" && device.is_cpu())
    fail("bench", "dtype bf16 is for CUDA devices. Use --dtype fp32 on the CPU.");
  std::vector<BenchRow> rows;
  for (const auto& c : cases) {
    c.sizes.check();
    run_case(c, options, device, dtype, rows);
  }
  return rows;
}

Json bench_json(const std::vector<BenchRow>& rows, const BenchOptions& options) {
  Json list = Json::array();
  for (const auto& r : rows) {
    const EncoderConfig& e = r.bench_case.sizes;
    Json row = {{"case", r.bench_case.name},
                {"model", r.bench_case.model},
                {"length", e.max_length},
                {"batch", r.bench_case.batch},
                {"dtype", r.dtype},
                {"device", r.device},
                {"phase", r.bench_case.phase},
                {"layers", e.layers},
                {"width", e.width},
                {"heads", e.heads},
                {"ff_width", e.ff_width},
                {"dropout", e.dropout},
                {"implementation", r.implementation}};
    if (r.problem.empty()) {
      row.update({{"ms_median", r.ms_median},
                  {"ms_p10", r.ms_p10},
                  {"ms_p90", r.ms_p90},
                  {"tokens_per_s", r.tokens_per_s},
                  {"peak_bytes", r.peak_bytes},
                  {"repeats", r.repeats},
                  {"ratio_to_lra", r.ratio_to_lra ? Json(*r.ratio_to_lra) : Json(1.0)}});
    } else {
      row["problem"] = r.problem;
    }
    list.push_back(row);
  }
  return {{"env", environment(parse_device(options.device).str(), {})}, {"rows", list}};
}

}  // namespace lra
