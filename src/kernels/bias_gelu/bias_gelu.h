// The middle of a feed-forward layer in one pass:
//
//   u = x + bias,   gelu(u) = ½ u (1 + tanh(√(2/π) (u + 0.044715 u³))),   y = dropout(gelu(u))
//
// and back:  dx = dropout(dy) ∘ gelu'(u),  dbias = Σ_rows dx.  Only x is kept; u, tanh and the mask are
// computed again.
#pragma once
#include <torch/types.h>

#include "kernels/dropout/dropout.h"

namespace lra {

// x: [B, L, F], bias: [F]; p = 0 for no dropout.
Tensor bias_gelu_dropout(const Tensor& x, const Tensor& bias, double p, uint64_t site, const DropoutKey& key);

// From the definition, step by step.
Tensor bias_gelu_dropout_reference(const Tensor& x, const Tensor& bias, double p, uint64_t site,
                                   const DropoutKey& key);

}  // namespace lra
