#include "kernels/rows/grid.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/attention_library.h"

namespace lra {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<int64_t> with_lead(std::vector<int64_t> lead, const Tensor& x, int64_t from) {
  for (int64_t d = from; d < x.dim(); ++d) lead.push_back(x.size(d));
  return lead;
}

Tensor where_true(const Tensor& mask, const Tensor& x) {  // mask: [n], x: [n, …]
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[0] = mask.size(0);
  return torch::where(mask.view(shape), x, torch::zeros({}, x.options()));
}

// Of every position: its row, its place there, and whether it belongs to one of the B rows.
struct Places {
  Tensor row, place, valid;  // [T], int64, int64, bool
};
Places places(const Rows& rows) {
  const Tensor begins = rows.offsets.narrow(0, 0, rows.count).to(torch::kLong).contiguous();
  const Tensor positions = torch::arange(rows.positions, begins.options());
  const Tensor row = torch::searchsorted(begins, positions, false, /*right=*/true) - 1;
  const Tensor place = positions - begins.index_select(0, row);
  return {row, place, place < rows.lengths.to(torch::kLong).index_select(0, row)};
}

bool on_full_grid(const Rows& rows) {
  return rows.full && rows.pitch == rows.longest && rows.count * rows.longest == rows.positions;
}

Tensor gather_grid(const Tensor& x, const Rows& rows) {
  const int64_t B = rows.count, L = rows.longest;
  if (on_full_grid(rows)) return x.reshape(with_lead({B, L}, x, 1));
  const Tensor begins = rows.offsets.narrow(0, 0, B).to(torch::kLong).unsqueeze(1);
  const Tensor cells = begins + torch::arange(L, begins.options()).unsqueeze(0);  // [B, L]
  const Tensor found = x.index_select(0, cells.clamp_max(x.size(0) - 1).flatten());
  return where_true(grid_mask(rows).flatten(), found).view(with_lead({B, L}, x, 1));
}

Tensor gather_positions(const Tensor& grid, const Rows& rows) {
  const int64_t L = grid.size(1);
  const Tensor flat = grid.reshape(with_lead({grid.size(0) * L}, grid, 2));
  if (on_full_grid(rows)) return flat;
  const auto [row, place, valid] = places(rows);
  return where_true(valid, flat.index_select(0, row * L + place.clamp_max(L - 1)));
}

class ToGrid : public torch::autograd::Function<ToGrid> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Rows& rows) {
    save_rows(*context, rows);
    return gather_grid(x, rows);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gather_positions(gradients[0], saved_rows(*context)), {}};
  }
};

class FromGrid : public torch::autograd::Function<FromGrid> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& grid, const Rows& rows) {
    save_rows(*context, rows);
    return gather_positions(grid, rows);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gather_grid(gradients[0], saved_rows(*context)), {}};
  }
};

class ByPlace : public torch::autograd::Function<ByPlace> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& table, const Rows& rows) {
    save_rows(*context, rows);
    context->saved_data["table"] = table.size(0);
    return table.index_select(0, places(rows).place.clamp_max(table.size(0) - 1));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor sum = gather_grid(gradients[0], saved_rows(*context)).sum(0);  // [L, …]
    const int64_t n = context->saved_data["table"].toInt();
    Tensor d = torch::zeros(with_lead({n}, sum, 1), sum.options());
    d.narrow(0, 0, sum.size(0)).copy_(sum);
    return {d, {}};
  }
};

}  // namespace

Tensor grid_mask(const Rows& rows) {
  return torch::arange(rows.longest, rows.lengths.options()).unsqueeze(0) < rows.lengths.unsqueeze(1);
}

// Full rows by autograd's own reshape.
Tensor to_grid(const Tensor& x, const Rows& rows) {
  return on_full_grid(rows) ? gather_grid(x, rows) : ToGrid::apply(x, rows);
}
Tensor from_grid(const Tensor& grid, const Rows& rows) {
  return on_full_grid(rows) ? gather_positions(grid, rows) : FromGrid::apply(grid, rows);
}
Tensor by_place(const Tensor& table, const Rows& rows) { return ByPlace::apply(table, rows); }

}  // namespace lra
