#include "batch/batch.h"

#include <algorithm>

namespace lra {

Batch Batch::to(const torch::Device& device) const {
  if (device.is_cpu()) return *this;
  const auto move = [&](torch::Tensor& t) {
    if (t.defined()) t = t.to(device, /*non_blocking=*/true);
  };
  Batch moved = *this;
  for (Sequences* s : {&moved.input, &moved.second}) {
    move(s->tokens);
    move(s->rows.offsets);
    move(s->rows.lengths);
    move(s->rows.slots);
  }
  move(moved.labels);
  return moved;
}

Rows lay_out(const std::vector<int32_t>& lengths, bool packed, int64_t first_row,
             const LayoutOptions& layout) {
  Rows rows;
  rows.count = static_cast<int64_t>(lengths.size());
  int32_t shortest = lengths.empty() ? 0 : lengths.front();
  for (const int32_t n : lengths) {
    TORCH_CHECK(n > 0, "[batch] a row of ", n, " positions; every row needs at least one");
    rows.longest = std::max<int64_t>(rows.longest, n);
    shortest = std::min(shortest, n);
  }
  if (!packed && layout.grid_step > 0) {
    const int64_t step = layout.grid_step, up = (rows.longest + step - 1) / step * step;
    rows.longest = std::max(rows.longest, std::min(up, layout.grid_most));
  }
  rows.full = shortest == rows.longest;
  rows.pitch = packed && !rows.full ? 0 : rows.longest;
  rows.offsets = torch::empty({rows.count + 1}, torch::kInt);
  rows.lengths = torch::tensor(lengths, torch::kInt);
  auto* offsets = rows.offsets.mutable_data_ptr<int32_t>();
  offsets[0] = 0;
  for (int64_t b = 0; b < rows.count; ++b) {
    const int64_t step = rows.pitch > 0 ? rows.pitch : lengths[static_cast<size_t>(b)];
    offsets[b + 1] = offsets[b] + static_cast<int32_t>(step);
  }
  rows.positions = offsets[rows.count];
  rows.slots = torch::empty({rows.positions}, torch::kLong);
  auto* slots = rows.slots.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < rows.count; ++b) {
    for (int32_t t = offsets[b]; t < offsets[b + 1]; ++t)
      slots[t] = Rows::slot_of(first_row + b, t - offsets[b]);
  }
  return rows;
}

}  // namespace lra
