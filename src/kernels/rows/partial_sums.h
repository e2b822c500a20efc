// The second half of a sum over positions: parts of it have been summed, here they are added up in order.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "kernels/parameter_gradient.h"

namespace lra {

// On the CPU parts are a fixed number of rows each, summed by whichever thread.
//
// into[i] += Σ_p partial[p][output][i]; partial: [parts, outputs, width]; into null: not wanted
template <class T>
void add_partial_sums(const T* partial, int64_t parts, int64_t outputs, int64_t output, int64_t width,
                      T* into) {
  if (!into) return;
  std::vector<T> total(static_cast<size_t>(width));
  for (int64_t p = 0; p < parts; ++p) {
    const T* part = partial + (p * outputs + output) * width;
    for (int64_t i = 0; i < width; ++i) total[static_cast<size_t>(i)] += part[i];
  }
  for (int64_t i = 0; i < width; ++i) into[i] += total[static_cast<size_t>(i)];
}

// The same on a device, where parts are the sums of blocks of threads: a gradient for each output.
void add_partial_sums(const torch::Tensor& partial, const std::vector<ParameterGradient>& gradients);

// A backward pass has many such sums, each a few microseconds of a mostly idle device, and nothing but the
// optimiser waits for them. While one of these is open they are put off, and then done by one launch:
//
//   PartialSumsTogether sums;
//   loss.backward();
//   sums.finish();             // gradients are complete from here on
//
// One at a time in a process; kernels of any thread (autograd has its own) find it. What autograd itself is
// to be given is never put off.
class PartialSumsTogether {
 public:
  PartialSumsTogether();
  ~PartialSumsTogether();
  PartialSumsTogether(const PartialSumsTogether&) = delete;
  PartialSumsTogether& operator=(const PartialSumsTogether&) = delete;
  void finish();

  struct List;

 private:
  std::unique_ptr<List> list_;
};

}  // namespace lra
