// Where a kernel's backward pass puts the gradient of a parameter: straight into its .grad where there is
// one, as in training, when all of them are views of one flat buffer (train/flat_state.h); autograd then gets
// nothing and launches no addition of its own. Elsewhere a fresh tensor that autograd is given.
#pragma once
#include <initializer_list>

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

// What kernels are given of a tensor that need not be there.
inline const void* data_or_null(const torch::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }
inline void* mutable_data_or_null(const torch::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr() : nullptr;
}

// Whether autograd will ask for the gradient of one of these; undefined ones do not count.
inline bool wants_gradient(std::initializer_list<torch::Tensor> inputs) {
  if (!torch::GradMode::is_enabled()) return false;
  for (const torch::Tensor& t : inputs) {
    if (t.defined() && t.requires_grad()) return true;
  }
  return false;
}

}  // namespace lra
