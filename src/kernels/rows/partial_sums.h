// The second half of a sum over positions on the CPU: parts of a fixed number of rows have been summed by
// whichever thread, here they are added up in order.
#pragma once
#include <cstdint>
#include <vector>

namespace lra {

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

}  // namespace lra
