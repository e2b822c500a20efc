#include "kernels/bias_act/bias_act.h"

#include <numbers>

#include "base/torch_compat.h"
#include "kernels/bias_act/bias_act_cpu.h"
#include "kernels/parameter_gradient.h"
#include "kernels/portable.h"
#include "kernels/rows/partial_sums.h"

namespace lra {

CudaLauncher<BiasActForwardArguments> bias_act_forward_cuda = nullptr;
CudaLauncher<BiasActBackwardArguments> bias_act_backward_cuda = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows summed into one partial bias gradient on the CPU: fixed, so that sums do not depend on the number of
// threads.
constexpr int64_t kRowsPerPart = 64;

void check(const Tensor& x, const Tensor& bias) {
  const auto type = x.scalar_type();
  TORCH_CHECK(x.dim() == 2 && x.size(1) > 0, "[bias_activation] x has shape ", x.sizes(),
              ", expected [T, F]");
  TORCH_CHECK(type == torch::kDouble || type == torch::kFloat || (type == torch::kBFloat16 && on_device(x)),
              "[bias_activation] x is ", type, " on ", x.device(),
              ", expected float, double or, on CUDA, bfloat16");
  const auto expected = type == torch::kDouble ? torch::kDouble : torch::kFloat;
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == x.size(1) && bias.scalar_type() == expected,
              "[bias_activation] the bias is ", bias.scalar_type(), " ", bias.sizes(), ", expected ",
              expected, " [", x.size(1), "]");
}

Tensor run_forward(const Tensor& x, const Tensor& bias, Activation activation, const Dropout& dropout) {
  const Tensor in = x.contiguous(), b = bias.contiguous();
  const Tensor y = torch::empty_like(in);
  const BiasActForwardArguments arguments{
      in.const_data_ptr(), b.const_data_ptr(), y.mutable_data_ptr(), in.size(0),
      in.size(1),          activation,         dropout.draw(),       static_cast<int>(in.element_size())};
  if (on_device(in)) {
    launch(bias_act_forward_cuda, arguments, "bias_activation");
  } else {
    parallel_for(0, in.size(0), std::max<int64_t>(1, 4096 / std::max<int64_t>(1, in.size(1))),
                 [&](int64_t begin, int64_t end) { bias_act_forward_cpu(arguments, begin, end); });
  }
  return y;
}

template <class T>
void backward_cpu(const BiasActBackwardArguments& a, const ParameterGradient& d_bias,
                  const torch::TensorOptions& options) {
  const int64_t parts = (a.positions + kRowsPerPart - 1) / kRowsPerPart;
  const Tensor partial = torch::zeros({parts, a.width}, options);
  T* sums = partial.mutable_data_ptr<T>();
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      bias_act_backward_cpu(a, part * kRowsPerPart, std::min(a.positions, (part + 1) * kRowsPerPart),
                            sums + part * a.width);
    }
  });
  add_partial_sums(sums, parts, 1, 0, a.width,
                   d_bias.into.defined() ? d_bias.into.mutable_data_ptr<T>() : nullptr);
}

class BiasActivation : public torch::autograd::Function<BiasActivation> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& bias, Activation activation,
                        const Dropout& dropout) {
    context->save_for_backward({x, bias});
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    save_dropout(*context, dropout);
    return run_forward(x, bias, activation, dropout);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor x = saved[0].contiguous(), bias = saved[1].contiguous(), dy = gradients[0].contiguous();
    const Tensor dx = torch::empty_like(dy);
    const Dropout dropout = saved_dropout(*context);
    const ParameterGradient d_bias(saved[1]);
    BiasActBackwardArguments arguments{x.const_data_ptr(),
                                       bias.const_data_ptr(),
                                       dy.const_data_ptr(),
                                       dx.mutable_data_ptr(),
                                       nullptr,
                                       x.size(0),
                                       x.size(1),
                                       bias_act_backward_blocks(x.size(0), x.size(1)),
                                       static_cast<Activation>(context->saved_data["activation"].toInt()),
                                       dropout.draw(),
                                       static_cast<int>(x.element_size())};
    const auto options = bias.options().requires_grad(false);
    if (on_device(x)) {
      const Tensor partial = torch::empty({arguments.blocks, 1, arguments.width}, options);
      arguments.partial = partial.mutable_data_ptr();
      launch(bias_act_backward_cuda, arguments, "bias_activation backward");
      add_partial_sums(partial, {d_bias});
    } else {
      arguments.element == 8 ? backward_cpu<double>(arguments, d_bias, options)
                             : backward_cpu<float>(arguments, d_bias, options);
    }
    return {dx, d_bias.result, {}, {}};
  }
};

}  // namespace

Tensor bias_activation(const Tensor& x, const Tensor& bias, Activation activation, const Dropout& dropout) {
  check(x, bias);
  if (!wants_gradient({x, bias})) {
    return run_forward(x, bias, activation, dropout);
  }
  return BiasActivation::apply(x, bias, activation, dropout);
}

Tensor bias_activation_reference(const Tensor& x, const Tensor& bias, Activation activation,
                                 const Dropout& dropout) {
  const Tensor u = x + bias;
  if (activation == Activation::kRelu) return dropout_reference(torch::relu(u), dropout);
  const Tensor z = std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u.pow(3));
  return dropout_reference(0.5 * u * (1 + torch::tanh(z)), dropout);
}

}  // namespace lra
