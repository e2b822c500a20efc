#include "bench/profile.h"

#include <algorithm>
#include <map>

#include <torch/csrc/autograd/profiler_kineto.h>

#include "base/torch_compat.h"

namespace lra {
namespace {

namespace kineto = torch::autograd::profiler;
namespace events = torch::profiler::impl;

const std::set<events::ActivityType> kActivities = {events::ActivityType::CUDA};

events::ProfilerConfig config() { return events::ProfilerConfig(events::ProfilerState::KINETO); }

void erase_all(std::string& text, const std::string& part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
}

}  // namespace

std::string plain_kernel_name(std::string name) {
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const char* part : {"(anonymous namespace)::", "<unnamed>::"}) erase_all(name, part);
  int depth = 0;  // of template arguments, which may have parentheses of their own
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

void prepare_profile() {
  setenv("TEARDOWN_CUPTI", "0", /*overwrite=*/0);
  setenv("DISABLE_CUPTI_LAZY_REINIT", "1", /*overwrite=*/0);
  kineto::prepareProfiler(config(), kActivities);
}

std::vector<KernelTime> profile(const std::function<void()>& step, int64_t steps,
                                const torch::Device& device) {
  synchronize(device);
  kineto::enableProfiler(config(), kActivities);
  for (int64_t i = 0; i < steps; ++i) step();
  synchronize(device);
  const auto result = kineto::disableProfiler();
  std::map<std::string, KernelTime> by_name;
  for (const auto& event : result->events()) {
    if (event.deviceType() != c10::DeviceType::CUDA) continue;
    KernelTime& k = by_name[plain_kernel_name(event.name())];
    k.calls += 1.0 / static_cast<double>(steps);
    k.ms += static_cast<double>(event.durationNs()) / 1e6 / static_cast<double>(steps);
  }
  std::vector<KernelTime> out;
  for (auto& [name, time] : by_name) {
    time.kernel = name;
    out.push_back(time);
  }
  std::sort(out.begin(), out.end(), [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
  return out;
}

}  // namespace lra
