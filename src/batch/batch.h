// What a model is given: examples as tensors.
//
// Positions of all rows stand in one dimension, T: activations are [T, D], whether rows are packed end to end
// or padded to a grid. `Rows` says where each row is; whoever works position by position needs not know.
#pragma once
#include <torch/types.h>

namespace lra {

// Row b of a batch is the positions offsets[b] … offsets[b] + lengths[b] − 1 of a tensor [T, …]. Sizes the
// host needs are plain numbers, so that nobody has to ask the device.
struct Rows {
  // int32 [B + 1], or more: the rows beyond B hold what is left over in a buffer of fixed size.
  torch::Tensor offsets;
  torch::Tensor lengths;  // int32 [B]
  torch::Tensor
      slots;          // int64 [T]: slot_of(row in the whole batch, place in the row), the name of a position
  int64_t count = 0;  // B
  int64_t positions = 0;  // T
  int64_t longest = 0;    // no row is longer
  int64_t pitch = 0;      // where rows lie on a grid [B, pitch]: positions from one to the next; 0: packed
  bool full = false;      // on a grid: without any padding
  bool gaps = false;      // places rise along a row, but leave some out

  static int64_t slot_of(int64_t row, int64_t place) { return (row << 24) + place; }
};

// One document of each example.
struct Sequences {
  torch::Tensor tokens;  // int32 [T]; the id after the vocabulary's last is the CLS position
  Rows rows;
};

struct Batch {
  Sequences input;
  Sequences second;      // where the task has two documents; else undefined tensors
  torch::Tensor labels;  // int64 [B]
  int64_t rows = 0;
  int64_t real_tokens = 0;  // without padding and CLS, both documents

  Batch to(const torch::Device& device) const;
};

// How examples become positions.
struct LayoutOptions {
  bool packed = true;  // rows end to end; else padded to the longest
  bool cls = false;    // a CLS position before every row
  int64_t cls_id = 0;  // its token id: the size of the vocabulary
  // Above 0: padding is kept as tokens like any others, every row has this many.
  int64_t filled_to = 0;
  int64_t pad_id = 0;
  // On a grid, above 0: rows are padded to a multiple of grid_step, at most to grid_most, so that few sizes
  // occur.
  int64_t grid_step = 0, grid_most = 0;
};

// Rows of these lengths (CLS included) in host memory; the first is row `first_row` of the whole batch. A
// grid has the pitch of its longest row, or of `layout` where that names steps.
Rows lay_out(const std::vector<int32_t>& lengths, bool packed, int64_t first_row = 0,
             const LayoutOptions& layout = {});

}  // namespace lra
