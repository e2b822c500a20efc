// How rows are cut into blocks: pieces from which models put their IntervalBlocks together. All tensors are
// int32 on the device of the rows; the number of blocks comes from `rows.longest`, a plain number.
#pragma once
#include "kernels/interval_attention/interval_attention.h"

namespace lra {

struct RowBlocks {
  int64_t count = 0;   // G: most blocks of a row
  Tensor start, end;   // [B, 1]: first position of a row after the lead, and the one after its last
  Tensor index;        // [1, G]: 0 … G − 1
  Tensor first, last;  // [B, G]: positions of a block, cut at the row's end; empty: first = last
  Tensor used;         // [B, 1]: blocks of this row, ⌈length / size⌉
};

// Blocks of `size` positions; the first `lead` positions of a row belong to none.
RowBlocks row_blocks(const Rows& rows, int64_t size, int64_t lead = 0);

// [B, G] each, for one slot after another → [B, 1, G, S]
Tensor slot_table(const std::vector<Tensor>& slots);

// The first position of each row, which sees the whole row.
IntervalBlocks open_first(const Rows& rows);

}  // namespace lra
