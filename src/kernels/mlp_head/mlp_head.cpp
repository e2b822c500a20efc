#include "kernels/mlp_head/mlp_head.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/bias_act/bias_act.h"
#include "kernels/mlp_head/mlp_head_arguments.h"
#include "kernels/parameter_gradient.h"
#include "kernels/portable.h"
#include "kernels/project/project.h"

namespace lra {

CudaLauncher<MlpHeadForwardArguments> mlp_head_forward_cuda = nullptr;
CudaLauncher<MlpHeadBackwardArguments> mlp_head_backward_cuda = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_parameter(const char* name, const Tensor& parameter, torch::IntArrayRef shape, const Tensor& x) {
  TORCH_CHECK(parameter.sizes() == shape && parameter.scalar_type() == x.scalar_type(), "[mlp_head] ", name,
              " is ", parameter.scalar_type(), " ", parameter.sizes(), ", expected ", x.scalar_type(), " ",
              shape);
  TORCH_CHECK(parameter.is_contiguous(), "[mlp_head] ", name, " is not contiguous: it has strides ",
              parameter.strides());
}

void check(const MlpHeadInput& in) {
  const Tensor& x = in.x;
  TORCH_CHECK(x.dim() == 2 && x.size(1) > 0 &&
                  (x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kDouble),
              "[mlp_head] x must be [B, I] of float or double, not ", x.sizes(), " of ", x.scalar_type());
  TORCH_CHECK(in.hidden_weight.dim() == 2 && in.hidden_weight.size(0) > 0 && in.out_weight.dim() == 2 &&
                  in.out_weight.size(0) > 0,
              "[mlp_head] the weights have shapes ", in.hidden_weight.sizes(), " and ", in.out_weight.sizes(),
              ", expected [F, I] and [C, F]");
  const int64_t F = in.hidden_weight.size(0), C = in.out_weight.size(0);
  check_parameter("hidden_weight", in.hidden_weight, {F, x.size(1)}, x);
  check_parameter("hidden_bias", in.hidden_bias, {F}, x);
  check_parameter("out_weight", in.out_weight, {C, F}, x);
  check_parameter("out_bias", in.out_bias, {C}, x);
}

MlpHeadSizes sizes_of(const Tensor& x, const Tensor& out_weight) {
  return {x.size(0), x.size(1), out_weight.size(1), out_weight.size(0), static_cast<int>(x.element_size())};
}

struct Passed {
  Tensor hidden, logits;
};

Passed run_forward(const MlpHeadInput& in, const Tensor& x) {
  const MlpHeadSizes sizes = sizes_of(x, in.out_weight);
  const auto options = x.options().requires_grad(false);
  const Passed out{torch::empty({sizes.B, sizes.F}, options), torch::empty({sizes.B, sizes.C}, options)};
  const MlpHeadForwardArguments arguments{sizes,
                                          x.const_data_ptr(),
                                          in.hidden_weight.const_data_ptr(),
                                          in.hidden_bias.const_data_ptr(),
                                          in.out_weight.const_data_ptr(),
                                          in.out_bias.const_data_ptr(),
                                          out.hidden.mutable_data_ptr(),
                                          out.logits.mutable_data_ptr()};
  launch(mlp_head_forward_cuda, arguments, "mlp_head");
  return out;
}

class MlpHeadFunction : public torch::autograd::Function<MlpHeadFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& hidden_weight,
                        const Tensor& hidden_bias, const Tensor& out_weight, const Tensor& out_bias) {
    const Tensor rows = x.contiguous();
    const Passed out = run_forward({x, hidden_weight, hidden_bias, out_weight, out_bias}, rows);
    context->save_for_backward({rows, hidden_weight, hidden_bias, out_weight, out_bias, out.hidden});
    return out.logits;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &hidden_weight = saved[1], &out_weight = saved[3], &hidden = saved[5];
    const Tensor d_logits = gradients[0].contiguous();
    const MlpHeadSizes sizes = sizes_of(x, out_weight);
    const auto options = x.options().requires_grad(false);
    const Tensor dx = context->needs_input_grad(0) ? torch::empty(x.sizes(), options) : Tensor();
    const Tensor scratch = torch::empty({mlp_head_backward_plan(sizes).scratch}, options);
    const ParameterGradient d_hidden_weight(hidden_weight), d_hidden_bias(saved[2]), d_out_weight(out_weight),
        d_out_bias(saved[4]);
    const MlpHeadBackwardArguments arguments{sizes,
                                             x.const_data_ptr(),
                                             hidden_weight.const_data_ptr(),
                                             out_weight.const_data_ptr(),
                                             hidden.const_data_ptr(),
                                             d_logits.const_data_ptr(),
                                             mutable_data_or_null(dx),
                                             mutable_data_or_null(d_hidden_weight.into),
                                             mutable_data_or_null(d_hidden_bias.into),
                                             mutable_data_or_null(d_out_weight.into),
                                             mutable_data_or_null(d_out_bias.into),
                                             scratch.mutable_data_ptr()};
    launch(mlp_head_backward_cuda, arguments, "mlp_head backward");
    return {dx, d_hidden_weight.result, d_hidden_bias.result, d_out_weight.result, d_out_bias.result};
  }
};

}  // namespace

Tensor mlp_head(const MlpHeadInput& in) {
  check(in);
  if (!on_device(in.x)) {
    const Tensor hidden =
        bias_activation(project(in.x, {in.hidden_weight}), in.hidden_bias, Activation::kRelu, {});
    return project(hidden, {in.out_weight}) + in.out_bias;
  }
  if (!wants_gradient({in.x, in.hidden_weight, in.hidden_bias, in.out_weight, in.out_bias}))
    return run_forward(in, in.x.contiguous()).logits;
  return MlpHeadFunction::apply(in.x, in.hidden_weight, in.hidden_bias, in.out_weight, in.out_bias);
}

Tensor mlp_head_reference(const MlpHeadInput& in) {
  const Tensor hidden = torch::relu(torch::matmul(in.x, in.hidden_weight.t()) + in.hidden_bias);
  return torch::matmul(hidden, in.out_weight.t()) + in.out_bias;
}

}  // namespace lra
