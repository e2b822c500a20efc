// Dropout:  y = x ∘ keep · scale, with `keep` from counters (bits.h). The backward pass draws the same
// numbers again.
#pragma once
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "kernels/dropout/dropout_arguments.h"

namespace lra {

using torch::Tensor;

// One use of dropout in one step. The same numbers on CPU and GPU, for any batching, packing or padding.
struct Dropout {
  double p = 0;  // 0: none, and the rest is not looked at
  uint64_t site = 0, seed = 0;
  Tensor step;   // int64 [1], on the device of the data: nothing to change when a captured graph is replayed
  Tensor slots;  // int64 [T]: Rows::slots

  bool active() const { return p > 0; }
  DropoutDraw draw() const;  // valid as long as the tensors are
};

// Between the two passes of an autograd function.
void save_dropout(torch::autograd::AutogradContext& context, const Dropout& dropout);
Dropout saved_dropout(torch::autograd::AutogradContext& context);

// x: [T, D]. Returns x itself for p = 0.
Tensor dropout(const Tensor& x, const Dropout& dropout);

// Weights [.., m] of queries that are named [..] by (row·H + head)·2^20 + place: the numbers that the CPU's
// attention kernels draw (dropout_attention_position).
Tensor dropout_weights(const Tensor& weights, const Tensor& queries, const Dropout& dropout);

// `dropout` from a mask written out element by element: the definition that kernels are tested against.
Tensor dropout_reference(const Tensor& x, const Dropout& dropout);

}  // namespace lra
