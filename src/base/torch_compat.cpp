#include "base/torch_compat.h"

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "base/error.h"
#include "base/file.h"
#include "base/tensor_threads.h"

// The entry points of the OpenMP runtime that libtorch_cpu.so has loaded (the ABI of libgomp).
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
}

namespace lra {
namespace {

// oneDNN's bf16 products may run AMX instructions in a thread whose tiles are not configured, which ends the
// program with an illegal instruction (seen with torch 2.11 on a virtual Xeon that reports amx_tile). oneDNN
// reads the variable at its first use; one that the user has set wins.
[[maybe_unused]] const int without_amx = setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", 0);

}  // namespace

namespace {

// Runs body(thread, threads) on a team; the first exception is thrown again on the caller.
void on_team(const std::function<void(int64_t, int64_t)>& body) {
  struct Shared {
    const std::function<void(int64_t, int64_t)>& body;
    std::exception_ptr failure;
    std::mutex mutex;
  } shared{body, nullptr, {}};
  GOMP_parallel(
      [](void* data) {
        auto& s = *static_cast<Shared*>(data);
        try {
          s.body(omp_get_thread_num(), omp_get_num_threads());
        } catch (...) {
          const std::lock_guard lock(s.mutex);
          if (!s.failure) s.failure = std::current_exception();
        }
      },
      &shared, 0, 0);
  if (shared.failure) std::rethrow_exception(shared.failure);
}

}  // namespace

void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& f) {
  if (begin >= end) return;
  if (end - begin <= grain || at::get_num_threads() == 1 || omp_in_parallel()) {
    f(begin, end);
    return;
  }
  on_team([&](int64_t thread, int64_t threads) {
    const int64_t n = end - begin;
    const int64_t chunks = std::min(threads, (n + grain - 1) / std::max<int64_t>(grain, 1));
    const int64_t chunk = (n + chunks - 1) / chunks;
    const int64_t first = begin + thread * chunk;
    if (thread < chunks && first < end) f(first, std::min(end, first + chunk));
  });
}

void parallel_tasks(int64_t n, const std::function<void(int64_t)>& f) {
  if (n <= 1 || at::get_num_threads() == 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
  std::atomic<int64_t> next{0};
  on_team([&](int64_t, int64_t) {
    for (int64_t i = next++; i < n; i = next++) f(i);
  });
}

const Tensor& no_tensor(torch::Dtype type) {
  static const auto make = [](torch::Dtype t) {
    const c10::InferenceMode normal(false);
    return torch::empty({0}, t);
  };
  static const Tensor int32 = make(torch::kInt), int64 = make(torch::kLong);
  return type == torch::kInt ? int32 : int64;
}

const CudaStatus& load_cuda() {
  static const CudaStatus status = [] {
    CudaStatus s;
    const std::string plugin =
        std::filesystem::read_symlink("/proc/self/exe").replace_filename("liblra_cuda.so").string();
    if (!dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      const char* reason = dlerror();
      s.why = "the CUDA plugin could not be loaded: " + std::string(reason ? reason : "unknown reason") +
              ". It is built where there is a CUDA toolkit (make build CUDA=on)";
      return s;
    }
    s.loaded = true;
    try {
      s.available = at::globalContext().hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
    } catch (const std::exception& e) {
      s.why = e.what();
    }
    if (!s.available && s.why.empty()) s.why = "no CUDA device or driver was found on this machine";
    return s;
  }();
  return status;
}

torch::Device parse_device(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  if (name.empty()) return parse_device(load_cuda().available ? "cuda" : "cpu");
  if (!name.starts_with("cuda")) fail("device", "'{}' is not a device, expected cpu, cuda or cuda:N.", name);
  if (!load_cuda().available)
    fail("device", "'{}' cannot be used: {}. Use --device cpu.", name, load_cuda().why);
  int index = 0;
  if (name != "cuda") {
    try {
      index = torch::Device(name).index();
    } catch (const c10::Error&) {
      fail("device", "'{}' is not a device, expected cpu, cuda or cuda:N.", name);
    }
  }
  const auto count = static_cast<int>(at::detail::getCUDAHooks().deviceCount());
  if (index < 0 || index >= count)
    fail("device", "'{}': this machine has {} CUDA device(s), cuda:0 to cuda:{}.", name, count, count - 1);
  at::accelerator::setDeviceIndex(
      static_cast<c10::DeviceIndex>(index));  // streams and kernels follow the current device
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

std::string device_name(const torch::Device& device) {
  if (device.is_cpu()) {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "CPU";
  }
  using Name = const char* (*)(int);
  const auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "lra_cuda_device_name"));
  return name ? name(device.index()) : "CUDA device";
}

void set_tensor_threads(int n) { at::set_num_threads(n); }

void seed_device_generator(const torch::Device& device, uint64_t seed, uint64_t offset) {
  if (device.is_cpu()) return;  // CPU kernels draw from counters of their own
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.unsafeGetGeneratorImpl()->set_current_seed(seed);
  generator.unsafeGetGeneratorImpl()->set_offset(offset);
}

void set_numerics(bool tf32, bool deterministic) {
  at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
  // cuBLAS keeps its own promise only with a fixed workspace, read when its first handle is made.
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // nobody reads what nobody wrote
}

DeterminismOrdered::DeterminismOrdered() {
  at::globalContext().setDeterministicAlgorithms(at::globalContext().deterministicAlgorithms(), false);
}
DeterminismOrdered::~DeterminismOrdered() {
  at::globalContext().setDeterministicAlgorithms(at::globalContext().deterministicAlgorithms(), true);
}

int64_t peak_memory_bytes(const torch::Device& device) {
  if (device.is_cuda()) {
    const auto stats = at::accelerator::getDeviceStats(device.index());
    return stats.allocated_bytes[0].peak;
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

void reset_peak_memory(const torch::Device& device) {
  if (device.is_cuda()) {
    torch::empty(
        {1}, torch::TensorOptions().device(device));  // the allocator knows a device from its first use on
    at::accelerator::resetPeakStats(device.index());
  } else {
    // What earlier work freed is kept for reuse (cli/verb.cpp) and stays resident until it is given back
    // here; it would count for whatever is measured next.
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // the high-water mark of resident memory
  }
}

void release_device_memory() {
  if (load_cuda().available) at::accelerator::emptyCache();
}

int64_t free_host_memory() {
  const std::string text = read_text("/proc/meminfo");
  const size_t at = text.find("MemAvailable:");
  return at == text.npos ? 0 : std::atoll(text.c_str() + at + 13) * 1024;
}

int64_t free_device_memory(const torch::Device& device) {
  return static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).first);
}

struct DeviceClock::State {
  torch::Device device;
  std::vector<c10::Event> events;                              // on CUDA
  std::vector<std::chrono::steady_clock::time_point> moments;  // on a CPU
};

DeviceClock::DeviceClock(const torch::Device& device)
    : state_(std::make_unique<State>(State{device, {}, {}})) {}

DeviceClock::~DeviceClock() = default;

void DeviceClock::mark() {
  if (!state_->device.is_cuda()) return state_->moments.push_back(std::chrono::steady_clock::now());
  state_->events.emplace_back(state_->device.type(), c10::EventFlag::BACKEND_DEFAULT);
  state_->events.back().record(at::accelerator::getCurrentStream(state_->device.index()));
}

void DeviceClock::wait_for(size_t mark) const {
  if (state_->device.is_cuda()) state_->events.at(mark).synchronize();
}

std::vector<double> DeviceClock::milliseconds() const {
  std::vector<double> out;
  if (!state_->events.empty()) state_->events.back().synchronize();
  for (size_t i = 1; i < state_->events.size(); ++i) {
    out.push_back(state_->events[i - 1].elapsedTime(state_->events[i]));
  }
  for (size_t i = 1; i < state_->moments.size(); ++i) {
    out.push_back(
        std::chrono::duration<double, std::milli>(state_->moments[i] - state_->moments[i - 1]).count());
  }
  return out;
}

void synchronize(const torch::Device& device) {
  if (device.is_cuda()) at::accelerator::synchronizeDevice(device.index());
}

}  // namespace lra
