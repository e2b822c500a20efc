#include "kernels/combine_rounds/combine_rounds.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/combine_rounds/combine_rounds_arguments.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<CombineRoundsForwardArguments> combine_rounds_forward_cuda = nullptr;
CudaLauncher<CombineRoundsBackwardArguments> combine_rounds_backward_cuda = nullptr;

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check(const Tensor& out, const Tensor& lse, int64_t rounds) {
  const auto type = out.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  TORCH_CHECK(out.dim() == 3 && rounds > 0 && out.size(1) % rounds == 0, "[combine_rounds] out has shape ",
              out.sizes(), ", expected [T, ", rounds, "·H, P]");
  TORCH_CHECK(
      lse.dim() == 2 && lse.size(0) == out.size(0) && lse.size(1) == out.size(1) && lse.scalar_type() == type,
      "[combine_rounds] lse is ", lse.scalar_type(), " ", lse.sizes(), ", expected ", type, " [", out.size(0),
      ", ", out.size(1), "]");
}

class CombineRounds : public torch::autograd::Function<CombineRounds> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& out, const Tensor& lse, int64_t rounds) {
    const Tensor o = out.contiguous(), l = lse.contiguous();
    const int64_t heads = o.size(1) / rounds;
    Tensor y = torch::empty({o.size(0), heads, o.size(2)}, o.options());
    launch(combine_rounds_forward_cuda,
           {o.const_data_ptr(), l.const_data_ptr(), y.mutable_data_ptr(), o.size(0),
            static_cast<int32_t>(rounds), static_cast<int32_t>(heads), static_cast<int32_t>(o.size(2)),
            static_cast<int>(o.element_size())},
           "combine_rounds");
    context->save_for_backward({o, l});
    context->saved_data["rounds"] = rounds;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &o = saved[0], &lse = saved[1], dy = gradients[0].contiguous();
    const int64_t rounds = context->saved_data["rounds"].toInt();
    const Tensor d_out = torch::empty_like(o), d_lse = torch::empty_like(lse);
    launch(combine_rounds_backward_cuda,
           {o.const_data_ptr(), lse.const_data_ptr(), dy.const_data_ptr(), d_out.mutable_data_ptr(),
            d_lse.mutable_data_ptr(), o.size(0), static_cast<int32_t>(rounds),
            static_cast<int32_t>(o.size(1) / rounds), static_cast<int32_t>(o.size(2)),
            static_cast<int>(o.element_size())},
           "combine_rounds backward");
    return {d_out, d_lse, {}};
  }
};

}  // namespace

Tensor combine_rounds(const Tensor& out, const Tensor& lse, int64_t rounds) {
  check(out, lse, rounds);
  return on_device(out) ? CombineRounds::apply(out, lse, rounds) : combine_rounds_reference(out, lse, rounds);
}

Tensor combine_rounds_reference(const Tensor& out, const Tensor& lse, int64_t rounds) {
  const int64_t T = out.size(0), H = out.size(1) / rounds;
  const Tensor share = torch::softmax(lse.view({T, rounds, H, 1}), 1).to(out.scalar_type());
  return (out.view({T, rounds, H, -1}) * share).sum(1);
}

}  // namespace lra
