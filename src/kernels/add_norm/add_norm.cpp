#include "kernels/add_norm/add_norm.h"

#include "base/torch_compat.h"
#include "kernels/add_norm/add_norm_cpu.h"
#include "kernels/parameter_gradient.h"
#include "kernels/portable.h"
#include "kernels/rows/partial_sums.h"

namespace lra {

CudaLauncher<AddNormForwardArguments> add_norm_forward_cuda = nullptr;
CudaLauncher<AddNormBackwardArguments> add_norm_backward_cuda = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows summed into one partial gradient on the CPU: fixed, so that sums do not depend on the number of
// threads.
constexpr int64_t kRowsPerPart = 64;

void check(const AddNormInput& in) {
  const auto type = in.x.scalar_type();
  TORCH_CHECK(in.x.dim() == 2 && in.x.size(1) > 0, "[add_norm] x has shape ", in.x.sizes(),
              ", expected [T, D]");
  TORCH_CHECK(
      type == torch::kDouble || type == torch::kFloat || (type == torch::kBFloat16 && on_device(in.x)),
      "[add_norm] x is ", type, " on ", in.x.device(), ", expected float, double or, on CUDA, bfloat16");
  TORCH_CHECK(!on_device(in.x) || in.x.size(1) <= kNormMaxWidth, "[add_norm] rows are ", in.x.size(1),
              " wide, on CUDA at most ", kNormMaxWidth, " is possible");
  const auto expected = type == torch::kDouble ? torch::kDouble : torch::kFloat;
  for (const Tensor& p : {in.weight, in.offset, in.branch.defined() ? in.bias : Tensor()}) {
    TORCH_CHECK(!p.defined() || (p.dim() == 1 && p.size(0) == in.x.size(1) && p.scalar_type() == expected),
                "[add_norm] a parameter is ", p.scalar_type(), " ", p.sizes(), ", expected ", expected, " [",
                in.x.size(1), "]");
  }
  TORCH_CHECK(!in.branch.defined() || (in.branch.sizes() == in.x.sizes() && in.branch.scalar_type() == type),
              "[add_norm] the branch is ", in.branch.scalar_type(), " ", in.branch.sizes(), ", x is ", type,
              " ", in.x.sizes());
}

struct Result {
  Tensor sum, normed, mean, rstd;  // mean and rstd undefined where no backward pass will follow
};

Result run_forward(const AddNormInput& in, bool for_backward) {
  const bool adds = in.branch.defined();
  const Tensor x = in.x.contiguous(), branch = adds ? in.branch.contiguous() : Tensor(),
               bias = adds && in.bias.defined() ? in.bias.contiguous() : Tensor(),
               weight = in.weight.contiguous(), offset = in.offset.contiguous();
  Result out{adds ? torch::empty_like(x) : x, torch::empty_like(x), {}, {}};
  if (for_backward) {
    out.mean = torch::empty({x.size(0)}, weight.options().requires_grad(false));
    out.rstd = torch::empty_like(out.mean);
  }
  const AddNormForwardArguments arguments{data_or_null(x),
                                          data_or_null(branch),
                                          data_or_null(bias),
                                          data_or_null(weight),
                                          data_or_null(offset),
                                          adds ? mutable_data_or_null(out.sum) : nullptr,
                                          mutable_data_or_null(out.normed),
                                          mutable_data_or_null(out.mean),
                                          mutable_data_or_null(out.rstd),
                                          x.size(0),
                                          x.size(1),
                                          adds ? in.dropout.draw() : Dropout().draw(),
                                          static_cast<int>(x.element_size())};
  if (on_device(x)) {
    launch(add_norm_forward_cuda, arguments, "add_norm");
  } else {
    parallel_for(0, x.size(0), std::max<int64_t>(1, 4096 / std::max<int64_t>(1, x.size(1))),
                 [&](int64_t begin, int64_t end) { add_norm_forward_cpu(arguments, begin, end); });
  }
  return out;
}

template <class T>
void backward_cpu(const AddNormBackwardArguments& a, const std::vector<ParameterGradient>& gradients,
                  const torch::TensorOptions& options) {
  const int64_t parts = (a.positions + kRowsPerPart - 1) / kRowsPerPart;
  Tensor partial = torch::zeros({parts, 3, a.width}, options);
  T* sums = partial.mutable_data_ptr<T>();
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      add_norm_backward_cpu(a, part * kRowsPerPart, std::min(a.positions, (part + 1) * kRowsPerPart),
                            sums + part * 3 * a.width);
    }
  });
  for (size_t i = 0; i < gradients.size(); ++i) {
    add_partial_sums(sums, parts, 3, static_cast<int64_t>(i), a.width,
                     static_cast<T*>(mutable_data_or_null(gradients[i].into)));
  }
}

class AddNorm : public torch::autograd::Function<AddNorm> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& branch,
                               const std::optional<Tensor>& bias, const Dropout& dropout,
                               const Tensor& weight, const Tensor& offset) {
    const bool adds = branch->defined();
    const Result out = run_forward({x, *branch, *bias, dropout, weight, offset}, true);
    context->set_materialize_grads(false);
    context->save_for_backward({out.sum, out.mean, out.rstd, weight, offset, adds ? *bias : Tensor()});
    context->saved_data["adds"] = adds;
    if (adds) save_dropout(*context, dropout);
    // An input that is returned becomes a view of itself with this function as its history.
    return {adds ? out.sum : x, out.normed};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (!gradients[0].defined() && !gradients[1].defined()) return variable_list(6);
    const auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], weight = saved[3].contiguous();
    const bool adds = context->saved_data["adds"].toBool();
    const Dropout dropout = saved_dropout(*context);
    const Tensor d_sum = gradients[0].defined() ? gradients[0].contiguous() : Tensor();
    const Tensor d_normed = gradients[1].defined() ? gradients[1].contiguous() : torch::zeros_like(sum);
    const Tensor d_x = torch::empty_like(d_normed);
    // Without dropout the branch gets the same gradient: the same tensor.
    const Tensor d_dropped = adds && dropout.active() ? torch::empty_like(d_x) : Tensor();
    const std::vector<ParameterGradient> of_parameters = {
        ParameterGradient(saved[3]), ParameterGradient(saved[4]), ParameterGradient(saved[5])};
    AddNormBackwardArguments arguments{data_or_null(sum),
                                       data_or_null(weight),
                                       data_or_null(saved[1]),
                                       data_or_null(saved[2]),
                                       data_or_null(d_sum),
                                       data_or_null(d_normed),
                                       mutable_data_or_null(d_x),
                                       mutable_data_or_null(d_dropped),
                                       nullptr,
                                       sum.size(0),
                                       sum.size(1),
                                       add_norm_backward_blocks(sum.size(0)),
                                       dropout.draw(),
                                       static_cast<int>(sum.element_size())};
    run_backward(arguments, of_parameters, saved[1].options());
    const Tensor d_branch = !adds ? Tensor() : d_dropped.defined() ? d_dropped : d_x;
    return {d_x, d_branch, of_parameters[2].result, {}, of_parameters[0].result, of_parameters[1].result};
  }

 private:
  static void run_backward(AddNormBackwardArguments& a, const std::vector<ParameterGradient>& gradients,
                           const torch::TensorOptions& options) {
    if (on_device(options.device())) {
      const Tensor partial = torch::empty({a.blocks, 3, a.width}, options);
      a.partial = mutable_data_or_null(partial);
      launch(add_norm_backward_cuda, a, "add_norm backward");
      add_partial_sums(partial, gradients);
    } else {
      a.element == 8 ? backward_cpu<double>(a, gradients, options)
                     : backward_cpu<float>(a, gradients, options);
    }
  }
};

}  // namespace

AddNormOutput add_norm(const AddNormInput& in) {
  check(in);
  if (!wants_gradient({in.x, in.branch, in.bias, in.weight, in.offset})) {
    const Result out = run_forward(in, false);
    return {in.branch.defined() ? out.sum : in.x, out.normed};
  }
  const auto out = AddNorm::apply(in.x, std::optional<Tensor>(in.branch), std::optional<Tensor>(in.bias),
                                  in.dropout, in.weight, in.offset);
  return {out[0], out[1]};
}

AddNormOutput add_norm_reference(const AddNormInput& in) {
  Tensor sum = in.x;
  if (in.branch.defined()) {
    const Tensor branch = in.bias.defined() ? in.branch + in.bias : in.branch;
    sum = in.x + dropout_reference(branch, in.dropout);
  }
  const Tensor centred = sum - sum.mean(-1, true);
  const Tensor variance = centred.pow(2).mean(-1, true);
  return {sum, centred / torch::sqrt(variance + kNormEpsilon) * in.weight + in.offset};
}

}  // namespace lra
