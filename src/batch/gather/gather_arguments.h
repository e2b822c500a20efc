// What the kernels of gather.cu are given: raw pointers on the device and sizes.
#pragma once
#include <cstdint>

#include "base/cuda_launch.h"
#include "batch/order.h"

namespace lra {

// One document of one micro-batch: rows first_row … first_row + rows − 1 of the batch of a step.
struct GatherArguments {
  const void* tokens;      // those of all examples end to end
  int token_bytes;         // 1 or 2 each
  const void* places;      // of all tokens in their examples (data/dataset.h); null: they leave none out
  int place_bytes;         // 1 or 2 each
  const int64_t* offsets;  // [N + 1]: where each example begins
  const int64_t* labels;   // [N]; null: labels are not wanted
  int64_t examples;        // N

  const int64_t* step;  // [1]
  int64_t batch, first_row, rows;
  uint64_t seed;
  int64_t frozen;  // example_at

  bool cls;  // a position with the token cls_id before every row
  int32_t cls_id;
  int64_t capacity;  // positions of the buffer, T; those that no row fills are cut into tail rows
  int64_t tail_rows, tail_row_length;

  int64_t* starts;       // [B], scratch: where the row's example begins in `tokens`
  int32_t* out_tokens;   // [T]
  int64_t* out_slots;    // [T]
  int32_t* out_offsets;  // [B + 1 + tail_rows]
  int32_t* out_lengths;  // [B]
  int64_t* out_labels;   // [B] or null
};
extern CudaLauncher<GatherArguments> gather_cuda;

}  // namespace lra
