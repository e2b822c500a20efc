#include "kernels/shared_keys/shared_keys.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/portable.h"
#include "kernels/shared_keys/shared_keys_arguments.h"

namespace lra {

CudaLauncher<SharedKeysForwardArguments> shared_keys_forward_cuda = nullptr;
CudaLauncher<SharedKeysBackwardArguments> shared_keys_backward_cuda = nullptr;

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// s
Tensor key_scale(const Tensor& q) {
  return torch::rsqrt(q.square().sum(-1, /*keepdim=*/true) + kSharedKeysEpsilon);
}

Tensor forward_portable(const Tensor& qv, bool unit) {
  const Tensor q = qv.narrow(1, 0, 1);
  return torch::cat({q, unit ? q * key_scale(q) : q, qv.narrow(1, 1, 1)}, 1);
}

Tensor backward_portable(const Tensor& qkv, const Tensor& d_qkv, bool unit) {
  Tensor d_q = d_qkv.narrow(1, 1, 1);
  if (unit) {
    const Tensor q = qkv.narrow(1, 0, 1), k = qkv.narrow(1, 1, 1);
    d_q = (d_q - k * (k * d_q).sum(-1, /*keepdim=*/true)) * key_scale(q);
  }
  return torch::cat({d_q + d_qkv.narrow(1, 0, 1), d_qkv.narrow(1, 2, 1)}, 1);
}

Tensor run_forward(const Tensor& qv, bool unit) {
  if (!on_device(qv)) return forward_portable(qv, unit);
  const Tensor in = qv.contiguous();
  const Tensor qkv = torch::empty({in.size(0), 3, in.size(2), in.size(3)}, in.options());
  launch(shared_keys_forward_cuda,
         {in.const_data_ptr(), qkv.mutable_data_ptr(), in.size(0), static_cast<int32_t>(in.size(2)),
          static_cast<int32_t>(in.size(3)), unit, static_cast<int>(in.element_size())},
         "shared_keys");
  return qkv;
}

Tensor run_backward(const Tensor& qkv, const Tensor& d_qkv, bool unit) {
  if (!on_device(d_qkv)) return backward_portable(qkv, d_qkv, unit);
  const Tensor in = d_qkv.contiguous();
  const Tensor d_qv = torch::empty({in.size(0), 2, in.size(2), in.size(3)}, in.options());
  launch(shared_keys_backward_cuda,
         {unit ? qkv.const_data_ptr() : nullptr, in.const_data_ptr(), d_qv.mutable_data_ptr(), in.size(0),
          static_cast<int32_t>(in.size(2)), static_cast<int32_t>(in.size(3)), unit,
          static_cast<int>(in.element_size())},
         "shared_keys backward");
  return d_qv;
}

class SharedKeys : public torch::autograd::Function<SharedKeys> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qv, bool unit) {
    Tensor qkv = run_forward(qv, unit);
    context->saved_data["unit"] = unit;
    if (unit) context->save_for_backward({qkv});
    return qkv;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool unit = context->saved_data["unit"].toBool();
    const Tensor qkv = unit ? context->get_saved_variables()[0] : Tensor();
    return {run_backward(qkv, gradients[0], unit), {}};
  }
};

}  // namespace

Tensor shared_keys(const Tensor& qv, bool unit) {
  TORCH_CHECK(qv.dim() == 4 && qv.size(1) == 2, "[shared_keys] qv has shape ", qv.sizes(),
              ", expected [T, 2, H, P]");
  return SharedKeys::apply(qv, unit);
}

Tensor shared_keys_reference(const Tensor& qv, bool unit) {
  const Tensor q = qv.select(1, 0);
  const Tensor k = unit ? q / torch::sqrt(q.pow(2).sum(-1, true) + kSharedKeysEpsilon) : q;
  return torch::stack({q, k, qv.select(1, 1)}, 1);
}

}  // namespace lra
