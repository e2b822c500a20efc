// All that a training step does once the gradients are there, on flat buffers: norm, check, clipping,
// schedule, update, counters. Nothing is read by the host, so a captured graph can replay it.
//
//   n = ‖g‖,   g ← g · min(1, clip / (n + 1e-6))        (in the update only; the buffer is not rewritten)
//   m ← β1·m + (1 − β1)·g,    v ← β2·v + (1 − β2)·g²
//   p ← p − lr·wd·p − lr·m̂ / (√v̂ + ε),    m̂ = m/(1 − β1^t),  v̂ = v/(1 − β2^t),  t = step + 1
//
// "Decoupled Weight Decay Regularization" (Loshchilov and Hutter, 2019). The first step whose loss or
// gradient norm is not finite is noted in `bad_step`; from then on parameters and moments stay as they are,
// while step and sums go on. The norm is summed in double, in an order that depends on n alone.
#pragma once
#include <torch/types.h>

#include "kernels/adamw/adamw_arguments.h"

namespace lra {

using torch::Tensor;

// All on one device.
struct AdamWState {
  Tensor parameters, gradients, first, second;  // [n] float or double
  Tensor working;   // bfloat16 [n]: the copy that products read, rounded from the parameters; undefined: none
  Tensor step;      // int64 [1]: updates done
  Tensor bad_step;  // int64 [1]: the first step that was not finite, or -1
  Tensor sums;      // double [4]: loss·examples, correct, examples, gradient norm·steps
  Tensor scratch;   // made by adamw_scratch()
};

// double: partial sums of the norm and the step's scalars, on the device of the parameters.
Tensor adamw_scratch(const Tensor& parameters);

// loss_sum: [] in any floating type, over the `rows` examples of this step; correct: int64 [].
void adamw_step(const AdamWState& state, const AdamWOptions& options, const Tensor& loss_sum,
                const Tensor& correct, int64_t rows);

// The same in operations of the library, reading from the device: the definition that kernels are tested
// against.
void adamw_step_reference(const AdamWState& state, const AdamWOptions& options, const Tensor& loss_sum,
                          const Tensor& correct, int64_t rows);

}  // namespace lra
