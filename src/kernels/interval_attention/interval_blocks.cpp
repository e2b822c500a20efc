#include "kernels/interval_attention/interval_blocks.h"

namespace lra {

RowBlocks row_blocks(const Rows& rows, int64_t size, int64_t lead) {
  RowBlocks b;
  b.count = std::max<int64_t>(1, (rows.longest - lead + size - 1) / size);
  const Tensor begin = rows.offsets.narrow(0, 0, rows.count).unsqueeze(1);
  b.start = begin + lead;
  b.end = begin + rows.lengths.unsqueeze(1);
  b.index = torch::arange(b.count, rows.offsets.options()).unsqueeze(0);
  b.first = torch::minimum(b.start + b.index * size, b.end);
  b.last = torch::minimum(b.first + size, b.end);
  b.used = torch::floor_divide(b.end - b.start + (size - 1), size);
  return b;
}

Tensor slot_table(const std::vector<Tensor>& slots) {
  return torch::stack(slots, 2).unsqueeze(1).contiguous();
}

IntervalBlocks open_first(const Rows& rows) {
  const RowBlocks b = row_blocks(rows, rows.longest);
  IntervalBlocks blocks;
  blocks.size = 1;
  blocks.first = b.start.contiguous();
  blocks.last = (b.start + 1).contiguous();
  blocks.slots = {{.column = 0, .width = rows.longest}};
  blocks.begin = slot_table({b.start});
  blocks.end = slot_table({b.end});
  return blocks;
}

}  // namespace lra
