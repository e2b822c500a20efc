// Matrix products with weights:
//
//   y = [x W₁ᵀ, x W₂ᵀ, …]      x: [T, in], Wᵢ: [outᵢ, in], y: [T, Σ outᵢ]
//
// One product forward, one for dx and one for all dW where the weights are neighbours in memory, as the
// parameters of one layer are in a flat buffer. The gradient of a weight is accumulated in its own type,
// straight into its .grad where it has one (kernels/parameter_gradient.h). A bias belongs to the kernel that
// follows (bias_act, add_norm): there it costs nothing.
#pragma once
#include <vector>

#include <torch/types.h>

namespace lra {

// `copies`: the flat buffer of parameters in the type of x, where the optimiser keeps one (its elements stand
// where those of the parameters' buffer do); undefined: the weights are converted here.
torch::Tensor project(const torch::Tensor& x, const std::vector<torch::Tensor>& weights,
                      const torch::Tensor& copies = {});

}  // namespace lra
