#include "kernels/project/project.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/parameter_gradient.h"
#include "kernels/product/product.h"

namespace lra {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool neighbours(const std::vector<Tensor>& tensors) {
  const Tensor& first = tensors.front();
  int64_t end = first.storage_offset();
  for (const auto& t : tensors) {
    if (!t.defined() || !t.is_contiguous() || !t.is_alias_of(first) || t.storage_offset() != end)
      return false;
    end += t.numel();
  }
  return true;
}

// Neighbouring matrices as one, at the same place of `buffer`.
Tensor stacked_view(const Tensor& buffer, const Tensor& first, int64_t rows) {
  const int64_t in = first.size(1);
  return buffer.as_strided({rows, in}, {in, 1}, first.storage_offset());
}

int64_t total_rows(const std::vector<Tensor>& weights) {
  int64_t rows = 0;
  for (const auto& w : weights) rows += w.size(0);
  return rows;
}

// The weights as one matrix in the type of the activations.
Tensor working_matrix(const std::vector<Tensor>& weights, const Tensor& copies, torch::Dtype type) {
  const bool together = neighbours(weights);
  if (together && copies.numel() > 0) return stacked_view(copies, weights.front(), total_rows(weights));
  const Tensor matrix =
      together ? stacked_view(weights.front(), weights.front(), total_rows(weights)) : torch::cat(weights);
  return matrix.to(type);
}

class ProjectFunction : public torch::autograd::Function<ProjectFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, torch::TensorList list,
                        const Tensor& copies) {
    const std::vector<Tensor> weights = list.vec();
    const Tensor matrix = working_matrix(weights, copies, x.scalar_type());
    variable_list saved = {x, matrix};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    return product(x, matrix.t());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &matrix = saved[1], dy = gradients[0].contiguous();
    const std::vector<Tensor> weights(saved.begin() + 2, saved.end());
    variable_list out = {context->needs_input_grad(0) ? product(dy, matrix) : Tensor()};
    std::vector<Tensor> targets;
    for (const auto& w : weights) {
      const ParameterGradient gradient(w);
      targets.push_back(gradient.into);
      out.push_back(gradient.result);
    }
    if (neighbours(targets)) {
      add_product(stacked_view(targets.front(), targets.front(), matrix.size(0)), dy.t(), x);
    } else {
      int64_t at = 0;
      for (size_t i = 0; i < weights.size(); at += weights[i].size(0), ++i) {
        if (targets[i].defined()) add_product(targets[i], dy.narrow(1, at, weights[i].size(0)).t(), x);
      }
    }
    out.emplace_back();
    return out;
  }
};

}  // namespace

Tensor project(const Tensor& x, const std::vector<Tensor>& weights, const Tensor& copies) {
  static const Tensor none = torch::empty({0});
  return ProjectFunction::apply(x, torch::TensorList(weights), copies.defined() ? copies : none);
}

}  // namespace lra
