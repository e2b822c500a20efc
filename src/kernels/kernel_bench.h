// A kernel's benchmark: what `lra bench --kernels` times and holds against the device's copy bandwidth, and
// against the speed of a large matrix product where that takes longer.
//
//   const Registered<KernelBench> bench(std::make_unique<NormBench>(), LRA_HERE);     in NAME_bench.cpp
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/types.h>

#include "base/registry.h"

namespace lra {

struct KernelCase {
  std::string name;           // "forward", "backward", "backward, dropout 0.1"
  int64_t bytes = 0;          // that it must read and write at least
  std::function<void()> run;  // starts the work once; owns its tensors
  int64_t products = 0;       // multiplications and additions in matrix products that it must do at least
};

class KernelBench {
 public:
  virtual ~KernelBench() = default;
  virtual std::string_view name() const = 0;
  // On tensors [positions, width] in the activations' type: larger than the last cache.
  virtual std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                        torch::Dtype type) const = 0;
};

}  // namespace lra
