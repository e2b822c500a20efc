#pragma once
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

inline constexpr int kPartialSumsColumns = 8;  // that a block of threads sums

struct PartialSum {
  const void* partial;  // [parts, stride], of which `width` are summed
  void* into;           // [width], added to
  int32_t parts, stride, width;
  int32_t blocks_end;  // blocks of threads for this sum and those before it
};

inline int32_t partial_sum_blocks(int32_t width) {
  return (width + kPartialSumsColumns - 1) / kPartialSumsColumns;
}

// No two of them add to the same memory.
struct PartialSumsArguments {
  static constexpr int kMost = 96;  // in the 4 KiB that a kernel's arguments may have
  PartialSum sums[kMost];
  int32_t count;
  int32_t element;  // bytes of a number of partial and into: 4 or 8
};

extern CudaLauncher<PartialSumsArguments> partial_sums_cuda;

}  // namespace lra
