// What stands between two branches of a block, in one pass: the residual connection and the layer norm after
// it (Ba et al., "Layer Normalization", 2016).
//
//   sum    = x + dropout(branch + bias)
//   normed = x̂ ∘ weight + offset,   x̂ = (sum − mean) / √(var + 1e-6),   mean and var over D, var divided by D
//
// and back, with u = d_normed ∘ weight and ⟨·⟩ the mean over D:
//
//   g = d_sum + (u − ⟨u⟩ − x̂ ⟨u ∘ x̂⟩) / √(var + 1e-6),   d_x = g,   d_branch = dropout(g)
//   d_bias = Σ_T d_branch,   d_weight = Σ_T d_normed ∘ x̂,   d_offset = Σ_T d_normed
//
// Forward reads 2·T·D and writes 2·T·D elements; backward reads 3·T·D and writes T·D, with dropout 2·T·D.
// Kept in between are sum and, a number for each position, mean and 1/√(var + 1e-6).
#pragma once
#include "kernels/dropout/dropout.h"

namespace lra {

// Activations are bfloat16 (on CUDA), float or double; parameters float, or double where activations are.
struct AddNormInput {
  Tensor x;         // [T, D], the residual stream
  Tensor branch;    // [T, D], added to it; undefined: nothing is, and bias and dropout are not looked at
  Tensor bias;      // [D], parameter, added to the branch; undefined: none
  Dropout dropout;  // of branch + bias
  Tensor weight, offset;  // [D], parameters of the norm
};

// Use `sum`, not x, for what goes on: then the gradients of both meet inside this kernel's backward pass.
struct AddNormOutput {
  Tensor sum;     // [T, D], in the type of x; without a branch it shares the memory of x
  Tensor normed;  // [T, D], in the type of x
};

AddNormOutput add_norm(const AddNormInput& input);

// From the definition, step by step.
AddNormOutput add_norm_reference(const AddNormInput& input);

}  // namespace lra
