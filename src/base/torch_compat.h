// Everything about LibTorch that is private, surprising or moves between versions, in one place (written
// for 2.11).
//
// * at::parallel_for is a header template that runs serially, silently, in code compiled without -fopenmp;
// and
//   -fopenmp may bring in a second OpenMP runtime. `parallel_for` and `parallel_tasks` here enter the runtime
//   that libtorch_cpu.so itself has loaded, so at::set_num_threads governs them too.
// * The program links libtorch_cpu only. `load_cuda` brings in libtorch_cuda and our kernels at run time
// through the plugin
//   liblra_cuda.so, so that one binary serves machines with and without a GPU and `lra --help` does not wait
//   for CUDA.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <torch/types.h>

namespace lra {

using torch::Tensor;

// f(first, last) on static chunks of [begin, end), at most one per thread, none smaller than `grain`.
void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& f);
// f(i) for i in [0, n), handed out one by one: for tasks of unequal cost.
void parallel_tasks(int64_t n, const std::function<void(int64_t)>& f);

// An empty tensor: autograd functions take no undefined ones. Made outside inference mode, whoever asks
// first.
const Tensor& no_tensor(torch::Dtype type);  // int32 or int64

struct CudaStatus {
  bool loaded = false;     // plugin and libtorch_cuda are in the process
  bool available = false;  // and there is a device
  std::string why;         // what is missing where not
};
const CudaStatus& load_cuda();

// "cpu", "cuda", "cuda:1", or empty for cuda if there is one. An error says why a device cannot be had.
torch::Device parse_device(const std::string& name);
std::string device_name(const torch::Device& device);

// Gives the device's default generator a state that depends on (seed, offset) alone: library kernels that
// draw their own random numbers (fused attention dropout on CUDA) then repeat after a resume.
void seed_device_generator(const torch::Device& device, uint64_t seed, uint64_t offset);

// Whether fp32 products on CUDA may use TF32, and whether kernels whose results change from run to run are
// avoided.
void set_numerics(bool tf32, bool deterministic);
// While one lives, determinism that set_numerics asked for is an order, not a wish: the backward passes of
// the library's attention add in a fixed order only then (2.11).
class DeterminismOrdered {
 public:
  DeterminismOrdered();
  ~DeterminismOrdered();
  DeterminismOrdered(const DeterminismOrdered&) = delete;
  DeterminismOrdered& operator=(const DeterminismOrdered&) = delete;
};

int64_t peak_memory_bytes(const torch::Device& device);
void reset_peak_memory(const torch::Device& device);
void synchronize(const torch::Device& device);
void release_device_memory();  // that the allocator holds and nobody uses
int64_t free_device_memory(const torch::Device& device);
int64_t free_host_memory();  // what a process may still take without swapping

// Marks between pieces of work, and the milliseconds from each mark to the next: the device's own on CUDA,
// where pieces run back to back without the host waiting for them; wall time on a CPU.
class DeviceClock {
 public:
  explicit DeviceClock(const torch::Device& device);
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  void mark();
  void wait_for(size_t mark) const;          // until the device has passed it
  std::vector<double> milliseconds() const;  // one less than marks; waits for the last

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lra
