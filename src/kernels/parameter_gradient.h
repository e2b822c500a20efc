// Where a kernel's backward pass puts the gradient of a parameter: straight into its .grad where there is
// one, as in training, when all of them are views of one flat buffer (train/flat_state.h); autograd then gets
// nothing and launches no addition of its own. Elsewhere a fresh tensor that autograd is given.
#pragma once
#include <torch/types.h>

namespace lra {

struct ParameterGradient {
  torch::Tensor into;    // add to it; undefined where no gradient is wanted
  torch::Tensor result;  // what the backward pass returns for the parameter

  explicit ParameterGradient(const torch::Tensor& parameter) {
    if (!parameter.defined() || !parameter.requires_grad()) return;
    if (parameter.is_leaf() && parameter.grad().defined()) {
      into = parameter.grad();
    } else {
      result = torch::zeros_like(parameter, torch::TensorOptions().requires_grad(false));
      into = result;
    }
  }
};

}  // namespace lra
