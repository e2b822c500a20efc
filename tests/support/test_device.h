// What a kernel's test runs on: the GPU where there is one; else the emulator (tests/emulated), which runs
// the sources of the same kernels on CPU tensors.
//
//   const TestDevice device;
//   const Tensor x = device.copy(on_cpu);
//   const Tensor y = device.run([&] { return some_operation(x); });   // forwards, backwards: all inside
//
// Inside of run(), CPU tensors are as if on the GPU (kernels/portable.h); expected values are computed
// outside.
#pragma once
#include <algorithm>
#include <dlfcn.h>
#include <optional>
#include <stdexcept>

#include "base/torch_compat.h"
#include "kernels/portable.h"

namespace lra {

class TestDevice {
 public:
  TestDevice() : emulated_(!load_cuda().available) {
    if (!emulated_) return;
    static void* const plugin = dlopen(LRA_EMULATED_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) throw std::runtime_error(std::string("the emulated kernels: ") + dlerror());
  }

  bool emulated() const { return emulated_; }
  // The emulator is slow: positions of a test that has many on a GPU.
  template <class Integer>
  Integer at_most(Integer emulated, Integer positions) const {
    return emulated_ ? std::min(emulated, positions) : positions;
  }

  torch::Device device() const {
    return emulated_ ? torch::Device(torch::kCPU) : torch::Device(torch::kCUDA, 0);
  }
  operator torch::Device() const { return device(); }
  // Never the tensor itself.
  Tensor copy(const Tensor& x) const { return x.to(x.options().device(device()), false, /*copy=*/true); }

  template <class F>
  auto run(const F& f) const {
    std::optional<EmulatedDevice> guard;
    if (emulated_) guard.emplace();
    return f();
  }

 private:
  bool emulated_;
};

}  // namespace lra
