// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/cuda_launch.h"

namespace lra {

struct CrossEntropyArguments {
  const void* logits;     // [B, C]
  const int64_t* labels;  // [B], on the CPU all in 0..C−1
  int64_t B, C;
  void* loss;        // [1], in the type of the logits
  int64_t* correct;  // [1]
  void* gradient;    // [B, C]: scale · (softmax − onehot); null: not wanted
  double scale;
  int element;    // bytes: 4 float, 8 double
  void* partial;  // CUDA: CrossEntropyPlan::scratch_bytes
};

// How CUDA divides the rows: a group of 1 to 32 threads has one at a time, each thread at most kHeld of its
// logits as long as that can be: the 257 of bytes and a CLS token are 9 for each of a warp. A classifier's
// batch is one block's work. All follows from the sizes alone, so that a sum is the same on every device.
struct CrossEntropyPlan {
  static constexpr int kThreads = 512, kHeld = 9;
  static constexpr int64_t kMostBlocks = 528;  // fill a large device twice
  struct Part {
    double loss;
    int64_t correct;
  };

  int group = 1;
  int64_t blocks;

  CrossEntropyPlan(int64_t B, int64_t C) {
    while (group < 32 && group * kHeld < C) group *= 2;
    const int64_t at_once = kThreads / group;
    blocks = std::clamp<int64_t>((B + at_once - 1) / at_once, 1, kMostBlocks);
  }

  int64_t scratch_bytes() const { return blocks > 1 ? blocks * static_cast<int64_t>(sizeof(Part)) : 0; }
};
extern CudaLauncher<CrossEntropyArguments> cross_entropy_cuda;

}  // namespace lra
