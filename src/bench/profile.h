// Where the time of a step goes: the device's work by kernel, as the profiler that LibTorch carries sees it,
// also inside of replayed graphs.
#pragma once
#include <functional>

#include <torch/types.h>

#include "bench/bench.h"

namespace lra {

// Before the first graph is recorded, so that kernels inside of graphs are seen.
void prepare_profile();
// Of `steps` calls, which must leave nothing to warm up; the longest first. Once in a process: CUPTI, which
// slows every launch from here on, does not survive a second time beside recorded graphs.
std::vector<KernelTime> profile(const std::function<void()>& step, int64_t steps,
                                const torch::Device& device);

// "void lra::(anonymous namespace)::f<T, 4>(T*, int)" → "lra::f<T, 4>"
std::string plain_kernel_name(std::string name);

}  // namespace lra
