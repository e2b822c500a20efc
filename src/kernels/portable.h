// Kernels with a CPU form of their own have another, of tensor operations, for every other device. While a
// PortablePath lives, CPU tensors of this thread take the second, so that what a GPU runs is tested, in
// double precision, where there is none. Autograd runs the backward pass of CPU tensors in the thread that
// asks for it.
#pragma once
#include <torch/types.h>

namespace lra {

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

// Whether x is for the CPU kernels.
inline bool on_cpu_path(const torch::Tensor& x) { return x.is_cpu() && !PortablePath::on(); }

}  // namespace lra
