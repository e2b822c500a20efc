// What a model is given: examples as tensors.
#pragma once
#include <torch/types.h>

namespace lra {

// One set of sequences, padded to a common length. Sizes the host needs to know (is there any padding?) are
// plain numbers, so that nobody has to ask the device.
struct Sequences {
  torch::Tensor tokens;   // int32 [B, L]
  torch::Tensor lengths;  // int32 [B]
  bool full = false;      // every row has L tokens
};

struct Batch {
  Sequences input;
  Sequences second;      // where the task has two documents; else undefined tensors
  torch::Tensor labels;  // int64 [B]
  int64_t rows = 0;
  int64_t real_tokens = 0;  // without padding, both documents
  int64_t first_row = 0;    // of a micro-batch in its whole batch

  Batch to(const torch::Device& device) const;
};

}  // namespace lra
