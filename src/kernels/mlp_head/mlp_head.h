// The classifier at the end of every model, two layers in one operation:
//
//   h      = relu(x W₁ᵀ + b₁)      x: [B, I], W₁: [F, I], b₁: [F], h: [B, F]
//   logits = h W₂ᵀ + b₂            W₂: [C, F], b₂: [C], logits: [B, C]
//
// and back, given d = d_logits [B, C]:
//
//   dh  = (d W₂) where h > 0, else 0      db₂ = Σ_b d[b],  dW₂ = dᵀ h
//   dx  = dh W₁                           db₁ = Σ_b dh[b], dW₁ = dhᵀ x
//
// These products are too small for a device: 32 rows in, 2 to 10 classes out. As an operation each they are
// a dozen kernels that cost their start, here two forwards and two back. Forwards: h, a block for 32 rows and
// a few hidden units; then the logits, a warp each. Backwards: a block for 32 rows, a slice of hidden units
// and 64 columns of x computes its dh again (C products an element), its piece of dW₁ and what its slice adds
// to dx; other blocks take dW₂ and db₂; then dx is summed over slices, and dW₁ over rows where there are more
// than 32. Sums are taken in a fixed order: the same bits every time.
//
// The gradients of the parameters go where kernels/parameter_gradient.h says. On the CPU this is `project`
// and `bias_activation`, one after the other.
#pragma once
#include <torch/types.h>

namespace lra {

using torch::Tensor;

// Float or double, all alike; parameters contiguous, on no particular boundary.
struct MlpHeadInput {
  Tensor x;                           // [B, I]
  Tensor hidden_weight, hidden_bias;  // [F, I], [F]
  Tensor out_weight, out_bias;        // [C, F], [C]
};

Tensor mlp_head(const MlpHeadInput& in);  // [B, C]

// From the definition, step by step.
Tensor mlp_head_reference(const MlpHeadInput& in);

}  // namespace lra
