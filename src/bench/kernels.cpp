// Kernels one by one. Each is timed over many calls in a row, on CUDA replayed from a graph as in a step, so
// that the host's launches cost nothing; on tensors larger than the last cache.
#include <algorithm>
#include <cmath>

#include "base/cuda_graph.h"
#include "base/log.h"
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

double median_ms(const std::function<void()>& run, const torch::Device& device) {
  constexpr int kCalls = 20, kRounds = 9;
  const auto calls = [&] {
    for (int i = 0; i < kCalls; ++i) run();
  };
  prepare(run, device);
  std::unique_ptr<CudaGraph> graph;
  if (device.is_cuda()) {
    graph = make_cuda_graph();
    graph->capture(calls);
  }
  std::vector<double> rounds;
  for (int r = -1; r < kRounds; ++r) {
    DeviceClock clock(device);
    clock.mark();
    graph ? graph->replay() : calls();
    clock.mark();
    if (r >= 0) rounds.push_back(clock.milliseconds().back() / kCalls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// Multiplications and additions that a large product does in a millisecond.
double product_speed(const torch::Device& device, torch::Dtype type) {
  const int64_t n = device.is_cuda() ? 8192 : 1024;
  const Tensor a = torch::randn({n, n}, torch::TensorOptions(torch::kFloat).device(device)).to(type);
  Tensor c = torch::empty_like(a);
  return std::pow(static_cast<double>(n), 3) / median_ms([&] { torch::mm_out(c, a, a); }, device);
}

}  // namespace

std::vector<KernelRow> run_kernel_bench(const BenchOptions& options, const std::string& dtype,
                                        int64_t positions, int64_t width) {
  const torch::Device device = parse_device(options.device);
  const auto type = device.is_cuda() && dtype != "fp32" ? torch::kBFloat16 : torch::kFloat;
  const Tensor from =
      torch::randn({positions, width}, torch::TensorOptions(torch::kFloat).device(device)).to(type);
  Tensor to = torch::empty_like(from);
  const int64_t copied = 2 * from.numel() * from.element_size();
  const double copy_ms = median_ms([&] { to.copy_(from); }, device);
  const double copy_speed = static_cast<double>(copied) / copy_ms;
  std::vector<KernelRow> rows = {{"copy", "", copied, copy_ms, copy_speed / 1e6, 1.0, 1.0}};
  double products = 0;  // in a millisecond, measured where it is needed
  const auto& registry = Registry<KernelBench>::instance();
  for (const auto& name : registry.names()) {
    std::vector<KernelCase> cases;
    prepare([&] { cases = registry.get(name, "kernel").cases(positions, width, device, type); }, device);
    for (const auto& c : cases) {
      verbose("{}: {}", name, c.name);
      const double ms = median_ms(c.run, device), speed = static_cast<double>(c.bytes) / ms;
      if (c.products > 0 && products == 0) products = product_speed(device, type);
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
