// Dropout:  y = x ∘ keep · scale, with `keep` from counters (bits.h). The backward pass draws the same
// numbers again.
#pragma once
#include <torch/types.h>

#include "kernels/dropout/dropout_arguments.h"

namespace lra {

using torch::Tensor;

// The random numbers of one step: the same on CPU and GPU, for any batching (bits.h).
struct DropoutKey {
  uint64_t seed = 0;
  torch::Tensor
      step;  // int64 [1], on the device of the data: nothing to change when a captured graph is replayed
  int64_t first_row = 0;  // of this micro-batch in the whole batch
};

// x: [B, L, D] or [B, D]. Returns x itself for p = 0.
torch::Tensor dropout(const torch::Tensor& x, double p, uint64_t site, const DropoutKey& key);

// The same from a mask written out element by element: the definition that the kernels are tested against.
torch::Tensor dropout_reference(const torch::Tensor& x, double p, uint64_t site, const DropoutKey& key);

// Filled in by the CUDA plugin when it is loaded.
extern void (*dropout_cuda)(const DropoutArguments&);

}  // namespace lra
