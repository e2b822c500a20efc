// On which path an operation runs, and how tests change it.
//
//   on_device(x)    the CUDA kernels (base/cuda_launch.h): CUDA tensors; while an EmulatedDevice lives, CPU
//                   tensors of this thread, too
//   on_cpu_path(x)  the CPU kernels: CPU tensors, unless a PortablePath or an EmulatedDevice lives
//   neither         tensor operations, for operations without a CUDA kernel
//
// Autograd runs the backward pass of CPU tensors in the thread that asks for it.
#pragma once
#include <torch/types.h>

namespace lra {

// While one lives, CPU tensors of this thread take the form of tensor operations, so that what other devices
// run is tested, in double precision, where there is none.
class PortablePath {
 public:
  PortablePath() { ++depth_; }
  ~PortablePath() { --depth_; }
  PortablePath(const PortablePath&) = delete;
  PortablePath& operator=(const PortablePath&) = delete;
  static bool on() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

// While one lives, CPU tensors of this thread are as if on a GPU. Tests load the kernels that run there
// (tests/support/test_device.h); without them a launch is an error.
class EmulatedDevice {
 public:
  EmulatedDevice() { ++depth_; }
  ~EmulatedDevice() { --depth_; }
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;
  static bool on() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

inline bool on_device(const torch::Device& device) { return device.is_cuda() || EmulatedDevice::on(); }
inline bool on_device(const torch::Tensor& x) { return x.is_cuda() || EmulatedDevice::on(); }
inline bool on_cpu_path(const torch::Tensor& x) {
  return x.is_cpu() && !PortablePath::on() && !EmulatedDevice::on();
}

// As the CUDA kernels take what they read 16 bytes at a time.
inline torch::Tensor aligned(const torch::Tensor& t) {
  const torch::Tensor x = t.contiguous();
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 ? x : x.clone();
}

}  // namespace lra
