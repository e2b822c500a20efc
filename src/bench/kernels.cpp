// Kernels one by one. Each is timed over many calls in a row, on CUDA replayed from a graph as in a step, so
// that the host's launches cost nothing; on tensors larger than the last cache.
#include <algorithm>
#include <cmath>

#include "base/cuda_graph.h"
#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/torch_compat.h"
#include "bench/bench.h"
#include "kernels/kernel_bench.h"
#include "train/trainer.h"

namespace lra {
namespace {

// Backward passes run on the stream of their forward passes: what will be recorded begins on that of
// recordings.
void prepare(const std::function<void()>& work, const torch::Device& device) {
  device.is_cuda() ? warm_up_for_capture(work) : work();
}

double milliseconds(const std::function<void()>& work, const torch::Device& device) {
  DeviceClock clock(device);
  clock.mark();
  work();
  clock.mark();
  return clock.milliseconds().back();
}

// Rounds of as many calls as take some milliseconds, for `seconds` at most but for three rounds.
double median_ms(const std::function<void()>& run, const torch::Device& device, double seconds) {
  constexpr int kMostCalls = 20, kMostRounds = 9, kLeastRounds = 3;
  constexpr double kRound = 20;  // ms
  double one = 0;
  prepare(
      [&] {
        run();
        one = milliseconds(run, device);
      },
      device);
  const int calls = std::clamp(static_cast<int>(kRound / std::max(one, 1e-3)), 1, kMostCalls);
  const auto round = [&] {
    for (int i = 0; i < calls; ++i) run();
  };
  std::unique_ptr<CudaGraph> graph;
  if (device.is_cuda()) {
    graph = make_cuda_graph();
    graph->capture(round);
    graph->replay();
  }
  std::vector<double> rounds;
  double spent = 0;
  for (int r = 0; r < kMostRounds && (r < kLeastRounds || spent < 1e3 * seconds); ++r) {
    if (interrupted()) throw Interrupted("benchmark interrupted");
    const double ms = graph ? milliseconds([&] { graph->replay(); }, device) : milliseconds(round, device);
    spent += ms;
    rounds.push_back(ms / calls);
  }
  const auto middle = rounds.begin() + static_cast<int64_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

// Multiplications and additions that a large product does in a millisecond.
double product_speed(const torch::Device& device, torch::Dtype type, double seconds) {
  const int64_t n = device.is_cuda() ? 8192 : 1024;
  const Tensor a = torch::randn({n, n}, torch::TensorOptions(torch::kFloat).device(device)).to(type);
  Tensor c = torch::empty_like(a);
  return std::pow(static_cast<double>(n), 3) / median_ms([&] { torch::mm_out(c, a, a); }, device, seconds);
}

}  // namespace

std::vector<KernelRow> run_kernel_bench(const BenchOptions& options, const std::string& dtype,
                                        int64_t positions, int64_t width,
                                        const std::vector<std::string>& only) {
  const auto& registry = Registry<KernelBench>::instance();
  for (const auto& name : only) registry.get(name, "kernel");  // or says which there are
  const torch::Device device = parse_device(options.device);
  const auto type = device.is_cuda() && dtype != "fp32" ? torch::kBFloat16 : torch::kFloat;
  const Tensor from =
      torch::randn({positions, width}, torch::TensorOptions(torch::kFloat).device(device)).to(type);
  Tensor to = torch::empty_like(from);
  const int64_t copied = 2 * from.numel() * from.element_size();
  const double copy_ms = median_ms([&] { to.copy_(from); }, device, options.seconds);
  const double copy_speed = static_cast<double>(copied) / copy_ms;
  std::vector<KernelRow> rows = {{"copy", "", copied, copy_ms, copy_speed / 1e6, 1.0, 1.0}};
  double products = 0;  // in a millisecond, measured where it is needed
  for (const auto& name : only.empty() ? registry.names() : only) {
    std::vector<KernelCase> cases;
    prepare([&] { cases = registry.get(name, "kernel").cases(positions, width, device, type); }, device);
    for (const auto& c : cases) {
      verbose("{}: {}", name, c.name);
      const double ms = median_ms(c.run, device, options.seconds), speed = static_cast<double>(c.bytes) / ms;
      if (c.products > 0 && products == 0) products = product_speed(device, type, options.seconds);
      const double least = std::max(static_cast<double>(c.bytes) / copy_speed,
                                    c.products > 0 ? static_cast<double>(c.products) / products : 0.0);
      rows.push_back({name, c.name, c.bytes, ms, speed / 1e6, speed / copy_speed, least / ms});
    }
  }
  return rows;
}

Json kernel_json(const std::vector<KernelRow>& rows, const BenchOptions& options) {
  Json list = Json::array();
  for (const auto& r : rows) {
    list.push_back({{"kernel", r.kernel},
                    {"case", r.name},
                    {"bytes", r.bytes},
                    {"ms", r.ms},
                    {"gigabytes_per_s", r.gigabytes_per_s},
                    {"share_of_copy", r.share_of_copy},
                    {"share_of_ideal", r.share_of_ideal}});
  }
  return {{"env", environment(parse_device(options.device).str(), {})}, {"kernels", list}};
}

}  // namespace lra
