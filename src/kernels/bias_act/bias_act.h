// The middle of a feed-forward layer in one pass:
//
//   u = x + bias,   y = dropout(f(u)),   f = relu or gelu(u) = ½ u (1 + tanh(√(2/π) (u + 0.044715 u³)))
//
// and back:  dx = dropout(dy) ∘ f'(u),  d_bias = Σ_T dx.  Only x is kept; u, f' and the mask are computed
// again. Forward reads and writes T·F elements; backward reads 2·T·F and writes T·F.
#pragma once
#include "kernels/bias_act/bias_act_arguments.h"
#include "kernels/dropout/dropout.h"

namespace lra {

// x: [T, F] in bfloat16 (on CUDA), float or double; bias: [F], parameter, float or, where x is, double.
Tensor bias_activation(const Tensor& x, const Tensor& bias, Activation activation, const Dropout& dropout);

// From the definition, step by step.
Tensor bias_activation_reference(const Tensor& x, const Tensor& bias, Activation activation,
                                 const Dropout& dropout);

}  // namespace lra
