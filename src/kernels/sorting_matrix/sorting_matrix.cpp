#include "kernels/sorting_matrix/sorting_matrix.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/parameter_gradient.h"
#include "kernels/portable.h"
#include "kernels/sorting_matrix/sorting_matrix_arguments.h"

namespace lra {

CudaLauncher<SortingMatrixArguments> sorting_matrix_cuda = nullptr;
CudaLauncher<SortingGradientArguments> sorting_gradient_cuda = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kNothing = -1e30;  // a logarithm of zero that can be subtracted from itself

// What both passes are given.
struct Saved {
  Tensor scores, used, offsets, slots, step;  // step: empty without noise
  double temperature;
  int64_t iters, site, seed;

  SortingMatrixData data() const {
    SortingMatrixData d{};
    d.scores = scores.const_data_ptr();
    d.row_stride = scores.stride(0), d.block_stride = scores.stride(1), d.head_stride = scores.stride(2);
    d.used = used.const_data_ptr<int32_t>(), d.offsets = offsets.const_data_ptr<int32_t>();
    d.slots = slots.const_data_ptr<int64_t>();
    d.rows = scores.size(0), d.site = site, d.seed = seed;
    if (step.numel() > 0) d.step = step.const_data_ptr<int64_t>();
    d.temperature = temperature;
    d.heads = static_cast<int32_t>(scores.size(2)), d.blocks = static_cast<int32_t>(scores.size(1));
    d.iters = static_cast<int32_t>(iters);
    d.element = static_cast<int>(scores.element_size());
    return d;
  }
  // Memory to work in; none where shared memory is enough.
  Tensor work(bool backward) const {
    const SortingMatrixData d = data();
    const auto type = d.element == 8 ? torch::kDouble : torch::kFloat;
    const int64_t each = sorting_work(d, backward);
    if (each * static_cast<int64_t>(c10::elementSize(type)) <= kSortingShared) return {};
    return torch::empty({d.rows * d.heads * each}, scores.options().dtype(type));
  }
};

class SortingMatrix : public torch::autograd::Function<SortingMatrix> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& scores, const SortingMatrixInput& in) {
    const Saved s{scores.stride(3) == 1 ? scores : scores.contiguous(),
                  in.used.contiguous(),
                  in.rows.offsets,
                  in.rows.slots,
                  in.noisy ? in.noise.step : no_tensor(torch::kLong),
                  in.temperature,
                  in.iters,
                  static_cast<int64_t>(in.noise.site),
                  static_cast<int64_t>(in.noise.seed)};
    const int64_t B = scores.size(0), G = scores.size(1), H = scores.size(2);
    const Tensor matrix = torch::empty({B, H, G, G}, scores.options()), work = s.work(false);
    launch(sorting_matrix_cuda, {s.data(), mutable_data_or_null(work), matrix.mutable_data_ptr()},
           "sorting_matrix");
    context->save_for_backward({s.scores, s.used, s.offsets, s.slots, s.step});
    context->saved_data["temperature"] = s.temperature;
    context->saved_data["numbers"] = std::vector<int64_t>{s.iters, s.site, s.seed};
    return matrix;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto t = context->get_saved_variables();
    const auto numbers = context->saved_data["numbers"].toIntVector();
    const Saved s{t[0],       t[1],       t[2],
                  t[3],       t[4],       context->saved_data["temperature"].toDouble(),
                  numbers[0], numbers[1], numbers[2]};
    const Tensor d_matrix = gradients[0].contiguous(),
                 d_scores = torch::empty(s.scores.sizes(), s.scores.options()), work = s.work(true);
    launch(sorting_gradient_cuda,
           {s.data(), mutable_data_or_null(work), d_matrix.const_data_ptr(), d_scores.mutable_data_ptr()},
           "sorting_matrix backward");
    return {d_scores, {}};
  }
};

// Names of the matrix's entries for the noise: row of the whole batch, head, i, j.
Tensor noise_index(const Rows& rows, int64_t H, int64_t G) {
  const auto number = rows.slots.options();
  const Tensor first = rows.offsets.narrow(0, 0, rows.count).to(torch::kLong);
  const Tensor row = rows.slots.index_select(0, first).bitwise_right_shift(24).view({-1, 1, 1, 1});
  const Tensor h = torch::arange(H, number).view({1, -1, 1, 1}), i = torch::arange(G, number);
  return (((row * H + h) * (1 << 20)) + i.view({1, 1, G, 1})) * (1 << 20) + i.view({1, 1, 1, G});
}

}  // namespace

Tensor sorting_matrix(const SortingMatrixInput& in) {
  const int64_t G = in.scores.size(1);
  TORCH_CHECK(in.scores.dim() == 4 && in.scores.size(3) == G && in.scores.size(0) == in.rows.count,
              "[sorting_matrix] scores have shape ", in.scores.sizes(), ", expected [", in.rows.count,
              ", G, H, G]");
  const bool kernel = on_device(in.scores) && !in.causal;
  return kernel ? SortingMatrix::apply(in.scores, in) : sorting_matrix_reference(in);
}

Tensor sorting_matrix_reference(const SortingMatrixInput& in) {
  const int64_t B = in.scores.size(0), G = in.scores.size(1), H = in.scores.size(2);
  const torch::Dtype type = in.scores.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  Tensor x = in.scores.to(type).permute({0, 2, 1, 3});
  if (in.noisy) x = x + gumbel_noise(noise_index(in.rows, H, G), in.noise, type);
  const Tensor index = torch::arange(G, in.used.options()), i = index.view({1, 1, G, 1}),
               j = index.view({1, 1, 1, G}), used = in.used.view({B, 1, 1, 1});
  const Tensor outside = ((i >= used).logical_or(j >= used)).logical_or(in.causal ? j >= i : j < 0);
  x = (x / in.temperature).masked_fill(outside, kNothing);
  for (int64_t round = 0; round < in.iters; ++round) {
    const Tensor columns = in.causal ? torch::logcumsumexp(x, 2) : torch::logsumexp(x, 2, /*keepdim=*/true);
    x = (x - columns).masked_fill(outside, kNothing);
    x = (x - torch::logsumexp(x, 3, /*keepdim=*/true)).masked_fill(outside, kNothing);
  }
  return torch::exp(x).to(in.scores.scalar_type());
}

}  // namespace lra
