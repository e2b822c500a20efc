#include "kernels/project_rows/project_rows.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/attention_library.h"
#include "kernels/parameter_gradient.h"
#include "kernels/portable.h"
#include "kernels/rows/grid.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class F>
void for_each_row(const Rows& rows, const F& f) {
  for (int64_t b = 0; b < rows.count; ++b) {
    f(b, rows.offsets.const_data_ptr<int32_t>()[b], rows.lengths.const_data_ptr<int32_t>()[b]);
  }
}

// On the CPU, row by row; every product has the threads of the library.
class CpuProjectRows : public torch::autograd::Function<CpuProjectRows> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const Rows& rows) {
    const Tensor x = input.contiguous();
    const int64_t K = weight.size(1);
    Tensor y = torch::empty({rows.count * K, x.size(1)}, x.options());
    for_each_row(rows, [&](int64_t b, int64_t at, int64_t n) {
      Tensor out = y.narrow(0, b * K, K);
      at::mm_out(out, weight.narrow(0, 0, n).t(), x.narrow(0, at, n));
    });
    context->save_for_backward({x, weight});
    save_rows(*context, rows);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], d = gradients[0].contiguous();
    const Rows rows = saved_rows(*context);
    const int64_t K = weight.size(1);
    Tensor d_x = rows.full ? torch::empty_like(x) : torch::zeros_like(x);
    const ParameterGradient d_weight(weight);
    for_each_row(rows, [&](int64_t b, int64_t at, int64_t n) {
      const Tensor d_row = d.narrow(0, b * K, K);
      Tensor into = d_x.narrow(0, at, n);
      at::mm_out(into, weight.narrow(0, 0, n), d_row);
      if (d_weight.into.defined()) d_weight.into.narrow(0, 0, n).addmm_(x.narrow(0, at, n), d_row.t());
    });
    return {d_x, d_weight.result, {}};
  }
};

// On a grid [B, L, W], by products in batches of rows.
class GridProjectRows : public torch::autograd::Function<GridProjectRows> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Rows& rows) {
    const Tensor grid = to_grid(x, rows), used = used_weight(weight, rows, x);
    context->save_for_backward({x, weight});
    save_rows(*context, rows);
    return at::bmm(used.t().expand({grid.size(0), -1, -1}), grid).flatten(0, 1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Rows rows = saved_rows(*context);
    const Tensor grid = to_grid(x, rows), used = used_weight(weight, rows, x);
    const int64_t B = grid.size(0), L = grid.size(1), K = used.size(1);
    const Tensor d = gradients[0].contiguous().view({B, K, -1});
    const Tensor d_x = from_grid(at::bmm(used.expand({B, -1, -1}), d), rows);
    const ParameterGradient d_weight(weight);
    if (d_weight.into.defined()) {
      const Tensor into = d_weight.into.narrow(0, 0, L);
      for (int64_t b = 0; b < B; b += kRowsAtOnce) {
        const int64_t n = std::min(kRowsAtOnce, B - b);
        into.add_(product(grid.narrow(0, b, n), d.narrow(0, b, n).transpose(1, 2), into).sum(0));
      }
    }
    return {d_x, d_weight.result, {}};
  }

 private:
  static constexpr int64_t kRowsAtOnce = 8;  // whose weight gradients are held at a time

  static Tensor used_weight(const Tensor& weight, const Rows& rows, const Tensor& x) {
    return weight.narrow(0, 0, rows.longest).to(x.scalar_type());  // [L, K]
  }
  // In the type of the parameter.
  static Tensor product(const Tensor& a, const Tensor& b, const Tensor& like) {
    const auto type = like.scalar_type();
    if (a.scalar_type() == type) return at::bmm(a, b);
    return a.is_cpu() ? at::bmm(a.to(type), b.to(type)) : at::bmm(a, b, type);
  }
};

}  // namespace

Tensor project_rows(const Tensor& x, const Tensor& weight, const Rows& rows) {
  return on_cpu_path(x) ? CpuProjectRows::apply(x, weight, rows) : project_rows_grid(x, weight, rows);
}

Tensor project_rows_grid(const Tensor& x, const Tensor& weight, const Rows& rows) {
  return GridProjectRows::apply(x, weight, rows);
}

Tensor project_rows_reference(const Tensor& x, const Tensor& weight, const Rows& rows) {
  std::vector<Tensor> parts;
  for (int64_t b = 0; b < rows.count; ++b) {
    const int64_t at = rows.offsets[b].item<int64_t>(), n = rows.lengths[b].item<int64_t>();
    Tensor sum = torch::zeros({weight.size(1), x.size(1)}, x.options());
    for (int64_t t = 0; t < n; ++t) sum = sum + torch::outer(weight[t], x[at + t]);
    parts.push_back(sum);
  }
  return torch::cat(parts);
}

}  // namespace lra
