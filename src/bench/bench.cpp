#include "bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include "base/cuda_graph.h"
#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/signals.h"
#include "base/torch_compat.h"
#include "batch/sources.h"
#include "bench/child.h"
#include "bench/peer.h"
#include "bench/profile.h"
#include "models/model.h"
#include "train/step_engine.h"
#include "train/trainer.h"

namespace lra {
namespace {

// Random tokens in full rows.
Batch random_batch(const BenchCase& c, const LayoutOptions& layout, const torch::Device& device) {
  Rng rng(0, stream_id("bench.tokens"));
  const int64_t L = c.sizes.max_length + (layout.cls ? 1 : 0);
  Batch batch;
  batch.rows = c.batch;
  batch.real_tokens = c.batch * c.sizes.max_length;
  batch.input.rows =
      lay_out(std::vector<int32_t>(static_cast<size_t>(c.batch), static_cast<int32_t>(L)), true);
  batch.input.tokens = torch::empty({c.batch * L}, torch::kInt);
  auto* tokens = batch.input.tokens.mutable_data_ptr<int32_t>();
  for (int64_t i = 0; i < batch.input.tokens.numel(); ++i) {
    tokens[i] = layout.cls && i % L == 0
                    ? static_cast<int32_t>(layout.cls_id)
                    : static_cast<int32_t>(1 + rng.below(static_cast<uint32_t>(c.sizes.vocab_size - 1)));
  }
  batch.labels = torch::empty({c.batch}, torch::kLong);
  for (int64_t r = 0; r < c.batch; ++r) {
    batch.labels.mutable_data_ptr<int64_t>()[r] = rng.below(static_cast<uint32_t>(c.sizes.num_classes));
  }
  return batch.to(device);
}

std::unique_ptr<ModelOptions> options_of(const BenchCase& c) {
  const ConfigTree* set = c.set.find(c.model);
  ConfigTree tree = set ? *set : ConfigTree();
  if (c.unfused) overlay(tree, parse_assignment("attention=unfused"));
  auto options = find_model(c.model).options();
  ConfigReader reader(tree, c.model);
  options->visit(reader);
  return options;
}

// Our side of a case, kept alive between the two rounds of measuring.
class OurCase {
 public:
  OurCase(const BenchCase& c, const torch::Device& device, torch::Dtype compute)
      : case_(c),
        device_(device),
        model_(build(c, compute)),
        state_(make_train_state(*model_, device, torch::kFloat, compute)) {
    if (c.data.empty()) {
      source_ = std::make_unique<FixedSource>(std::vector<Batch>{random_batch(c, model_->layout(), device)});
    } else {
      data_.emplace(c.data);
      source_ = make_source(*data_, {c.batch, 1, 0, model_->layout()}, 0, device);
    }
    engine_ = make_engine(c.eager ? EngineKind::kEager : EngineKind::kGraph, *model_, state_, {}, {}, 0);
  }

  void measure(double seconds, int64_t repeats) {
    // With real data every size of batch is met, and recorded, before the clock runs.
    const int64_t warm_ups = case_.data.empty() ? 5 : 100;
    for (int64_t i = 0; i < warm_ups; ++i) once();
    synchronize(device_);
    constexpr int64_t kAhead = 2;  // steps that the host may be ahead of the device
    const auto began = std::chrono::steady_clock::now();
    const auto measured = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    DeviceClock clock(device_);
    clock.mark();
    for (int64_t i = 1; i <= repeats && (i <= 3 || measured() < seconds); ++i) {
      if (interrupted()) throw Interrupted("benchmark interrupted");
      once();
      clock.mark();
      if (i > kAhead) clock.wait_for(static_cast<size_t>(i - kAhead));
    }
    const auto steps = clock.milliseconds();
    samples_.insert(samples_.end(), steps.begin(), steps.end());
  }

  std::vector<KernelTime> profile() {
    constexpr int64_t kSteps = 5;
    return lra::profile([&] { once(); }, kSteps, device_);
  }

  const std::vector<double>& samples() const { return samples_; }
  double tokens() const { return static_cast<double>(tokens_) / static_cast<double>(steps_); }  // of a step

 private:
  static std::shared_ptr<Encoder> build(const BenchCase& c, torch::Dtype compute) {
    auto encoder = make_encoder(find_model(c.model), c.sizes, *options_of(c), 0);
    encoder->set_compute_type(compute);
    return encoder;
  }

  void once() {
    tokens_ += source_->tokens(steps_);
    if (case_.phase == "train") {
      engine_->step(*source_);
    } else {
      forward();
    }
    ++steps_;
  }

  // The logits of a step's batch, recorded where a training step would be.
  void forward() {
    const torch::InferenceMode inference;
    source_->prepare(steps_);
    const auto work = [&] {
      Forward f;
      f.copies = state_.copies;
      model_->forward(source_->batch(0, state_.step), f);
      state_.step += 1;
    };
    if (device_.is_cpu() || case_.eager || !source_->capturable()) return work();
    forward_graphs_.run(source_->shape(0), work);
  }

  BenchCase case_;
  torch::Device device_;
  std::shared_ptr<Encoder> model_;
  TrainState state_;
  std::optional<Dataset> data_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<StepEngine> engine_;
  GraphPerShape forward_graphs_;
  std::vector<double> samples_;
  int64_t tokens_ = 0, steps_ = 0;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

std::string dtype_of(const BenchCase& c, const torch::Device& device) {
  if (c.dtype.empty()) return device.is_cuda() ? "bf16" : "fp32";
  if (c.dtype != "fp32" && device.is_cpu())
    fail("bench", "dtype {} is for CUDA devices. Use --dtype fp32 on the CPU.", c.dtype);
  return c.dtype;
}

torch::Dtype compute_type(const std::string& dtype) {
  return dtype == "bf16" ? torch::kBFloat16 : torch::kFloat;
}

// Said beforehand, since a CPU swaps, or is killed, before it refuses.
std::string too_large(const BenchCase& c, const torch::Device& device, const std::string& dtype) {
  const bool train = c.phase == "train";
  const int64_t bytes_each = dtype == "bf16" ? 2 : 4;
  double needed = 0;
  if (train && c.data.empty()) {
    needed += static_cast<double>(c.sizes.activation_bytes(c.batch * c.sizes.positions_count(), bytes_each));
  }
  if (c.unfused) {
    needed += static_cast<double>(
        c.sizes.attention_weight_bytes(c.batch, c.sizes.positions_count(), bytes_each, train));
  }
  const auto there = static_cast<double>(device.is_cuda() ? free_device_memory(device) : free_host_memory());
  if (needed < 0.9 * there) return "";
  return fmt::format("needs about {:.0f} GB, {:.0f} are free", needed / 1e9, there / 1e9);
}

// What its sizes and options refuse, seen on a small one.
void check_case(BenchCase c) {
  c.sizes.check();
  c.sizes.layers = 1;
  c.sizes.max_length = std::min<int64_t>(c.sizes.max_length, 64);
  make_encoder(find_model(c.model), c.sizes, *options_of(c), 0);
}

// In two rounds, with whatever else is to be measured between them.
void measure_here(BenchRow& row, const BenchOptions& options, const torch::Device& device,
                  const std::function<void()>& between) {
  reset_peak_memory(device);
  OurCase our_case(row.bench_case, device, compute_type(row.dtype));
  our_case.measure(options.seconds / 2, options.repeats);
  between();
  our_case.measure(options.seconds / 2, options.repeats);
  const auto& samples = our_case.samples();
  row.ms_median = quantile(samples, 0.5);
  row.ms_p10 = quantile(samples, 0.1);
  row.ms_p90 = quantile(samples, 0.9);
  row.repeats = static_cast<int64_t>(samples.size());
  row.tokens_per_s = our_case.tokens() / row.ms_median * 1e3;
  row.peak_bytes = peak_memory_bytes(device);
}

void measure_apart(BenchRow& row, std::vector<std::string> command, size_t number,
                   const std::function<void()>& between) {
  command.push_back(fmt::format("--measure-case={}", number));
  Child child(command);
  if (child.says("ready")) between();
  child.tell("go");
  const auto numbers = child.result();
  if (!numbers)
    fail("bench",
         "{} L {}: its process ended before its measurement did. It has said why above; if not, the system "
         "may have ended it for its memory. Try fewer --batches.",
         row.bench_case.model, row.bench_case.sizes.max_length);
  read_numbers(row, *numbers, "the process of a case");
}

void run_case(const BenchCase& c, size_t number, const BenchOptions& options, const torch::Device& device,
              const std::string& dtype, std::vector<BenchRow>& rows) {
  info("{}{} L {}{} batch {} dropout {} {} {}", c.name.empty() ? "" : c.name + ": ", c.model,
       c.data.empty() ? "" : "≤ ", c.sizes.max_length, c.batch, c.sizes.dropout, dtype, c.phase);
  std::vector<BenchRow> peers;
  const auto measure_peers = [&] {
    // Those of the unfused baseline are the Transformer's own.
    if (options.peers && !c.unfused) peers = run_peers(c, options, device.str(), dtype);
  };
  BenchRow ours{c,
                c.unfused               ? "lra-unfused"
                : c.eager               ? "lra-eager"
                : options.deterministic ? "lra-deterministic"
                                        : "lra",
                device.str(), dtype};
  ours.problem = too_large(c, device, dtype);
  if (!ours.problem.empty()) {
    rows.push_back(ours);
    return;
  }
  try {
    if (device.is_cpu() && !options.own_process.empty()) {
      measure_apart(ours, options.own_process, number, measure_peers);
    } else {
      measure_here(ours, options, device, measure_peers);
    }
  } catch (const c10::OutOfMemoryError&) {
    ours.problem = "more memory than the device has";
  }
  rows.push_back(ours);
  for (auto& peer : peers) {
    if (peer.problem.empty() && ours.problem.empty()) peer.ratio_to_lra = peer.ms_median / ours.ms_median;
    rows.push_back(peer);
  }
}

// Fills in the speeds beside the two baselines of the same sizes.
void compare_with_baselines(std::vector<BenchRow>& rows) {
  const auto same_sizes = [](const BenchRow& x, const BenchRow& y) {
    const BenchCase &a = x.bench_case, &b = y.bench_case;
    return a.name == b.name && a.sizes.max_length == b.sizes.max_length && a.batch == b.batch &&
           a.phase == b.phase && a.sizes.dropout == b.sizes.dropout && x.dtype == y.dtype;
  };
  for (BenchRow& row : rows) {
    if (!row.problem.empty()) continue;
    for (const BenchRow& base : rows) {
      const bool ours = base.implementation.starts_with("lra") && base.bench_case.model == "transformer";
      if (!ours || !base.problem.empty() || !same_sizes(base, row)) continue;
      (base.bench_case.unfused ? row.speed_to_unfused : row.speed_to_transformer) =
          base.ms_median / row.ms_median;
    }
  }
}

Json numbers_json(const BenchRow& r) {
  return {{"ms_median", r.ms_median},       {"ms_p10", r.ms_p10},         {"ms_p90", r.ms_p90},
          {"tokens_per_s", r.tokens_per_s}, {"peak_bytes", r.peak_bytes}, {"repeats", r.repeats}};
}

// {"model.width": 512, "performer.features": 64}
Json settings_json(const ConfigTree& set) {
  Json all = Json::object();
  for (const auto& [section, keys] : set.children) {
    for (const auto& [key, leaf] : keys.children) {
      const bool plain = Json::accept(leaf.value);  // a number or a flag
      all[section + "." + key] = plain ? Json::parse(leaf.value) : Json(leaf.value);
    }
  }
  return all;
}

bool fits(BenchCase c, int64_t batch, const torch::Device& device, torch::Dtype compute) {
  c.batch = batch;
  try {
    OurCase our_case(c, device, compute);
    our_case.measure(0.001, 1);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    return false;
  }
}

}  // namespace

int64_t find_max_batch(const BenchCase& c, const BenchOptions& options) {
  const torch::Device device = parse_device(options.device);
  if (device.is_cpu())
    fail("bench", "--max-batch is for CUDA devices: a CPU would start to swap long before it refuses.");
  const std::string dtype = dtype_of(c, device);
  const auto works = [&](int64_t batch) {
    info("{} L {}: trying batch {}", c.model, c.sizes.max_length, batch);
    const bool good = fits(c, batch, device, compute_type(dtype));
    release_device_memory();
    return good;
  };
  int64_t good = 0, bad = 1;
  while (bad <= (int64_t{1} << 20) && works(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > std::max<int64_t>(1, good / 16)) {  // to a sixteenth
    const int64_t middle = (good + bad) / 2;
    (works(middle) ? good : bad) = middle;
  }
  return good;
}

EncoderConfig read_settings(const ConfigTree& set, const std::vector<std::string>& models) {
  EncoderConfig sizes;
  ConfigReader reader(set);
  reader.section(
      "model", [&](Fields& f) { sizes.visit(f); }, "");
  for (const auto& name : models) {
    const auto options = find_model(name).options();
    reader.section(
        name.c_str(), [&](Fields& f) { options->visit(f); }, "");
  }
  reader.finish();
  return sizes;
}

Json measure_case(const BenchCase& c, const BenchOptions& options) {
  const torch::Device device = parse_device(options.device);
  BenchRow row{c, "lra", device.str(), dtype_of(c, device)};
  set_numerics(row.dtype == "tf32", options.deterministic);
  measure_here(row, options, device, [] {
    std::cout << "ready" << std::endl;
    std::string turn;
    if (!std::getline(std::cin, turn)) throw Interrupted("whoever was to say when to go on has gone");
  });
  return numbers_json(row);
}

void read_numbers(BenchRow& row, const Json& numbers, std::string_view where) {
  row.ms_median = json_get<double>(numbers, "ms_median", where);
  row.ms_p10 = json_get<double>(numbers, "ms_p10", where);
  row.ms_p90 = json_get<double>(numbers, "ms_p90", where);
  row.tokens_per_s = json_get<double>(numbers, "tokens_per_s", where);
  row.peak_bytes = json_get<int64_t>(numbers, "peak_bytes", where);
  row.repeats = json_get<int64_t>(numbers, "repeats", where);
}

void check_profile(const BenchOptions& options) {
  if (parse_device(options.device).is_cpu())
    fail("bench", "--profile is for CUDA devices; perf(1) profiles a CPU.");
}

std::vector<KernelTime> profile_case(const BenchCase& c, const BenchOptions& options) {
  check_profile(options);
  const torch::Device device = parse_device(options.device);
  const std::string dtype = dtype_of(c, device);
  set_numerics(dtype == "tf32", options.deterministic);
  prepare_profile();
  OurCase our_case(c, device, compute_type(dtype));
  our_case.measure(0.01, 3);  // the first steps record
  return our_case.profile();
}

Json kernels_json(const std::vector<KernelTime>& kernels) {
  Json list = Json::array();
  for (const KernelTime& k : kernels)
    list.push_back({{"kernel", k.kernel}, {"calls", k.calls}, {"ms", k.ms}});
  return list;
}

std::vector<KernelTime> kernels_from_json(const Json& kernels) {
  std::vector<KernelTime> all;
  for (const Json& k : kernels) {
    all.push_back({json_get<std::string>(k, "kernel", "profile"), json_get<double>(k, "calls", "profile"),
                   json_get<double>(k, "ms", "profile")});
  }
  return all;
}

std::vector<BenchRow> run_bench(const std::vector<BenchCase>& cases, const BenchOptions& options,
                                const std::function<void(const std::vector<BenchRow>&)>& so_far) {
  const torch::Device device = parse_device(options.device);
  std::vector<std::string> dtypes;
  for (const auto& c : cases) {
    check_case(c);
    dtypes.push_back(dtype_of(c, device));
  }
  if (options.peers) {
    check_peers(cases, options, device.str());
    compile_peers(cases, dtypes, options, device.str());
  }
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < cases.size(); ++i) {
    set_numerics(dtypes[i] == "tf32", options.deterministic);
    run_case(cases[i], i, options, device, dtypes[i], rows);
    release_device_memory();
    compare_with_baselines(rows);
    so_far(rows);
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
                {"set", settings_json(r.bench_case.set)},
                {"data", r.bench_case.data},
                {"implementation", r.implementation}};
    if (r.problem.empty()) {
      row.update(numbers_json(r));
      row["ratio_to_lra"] = r.ratio_to_lra.value_or(1.0);
      if (r.speed_to_transformer) row["speed_to_transformer"] = *r.speed_to_transformer;
      if (r.speed_to_unfused) row["speed_to_unfused"] = *r.speed_to_unfused;
      if (!r.kernels.empty()) row["kernels"] = kernels_json(r.kernels);
    } else {
      row["problem"] = r.problem;
    }
    list.push_back(row);
  }
  return {{"env", environment(parse_device(options.device).str(), {})}, {"rows", list}};
}

}  // namespace lra
