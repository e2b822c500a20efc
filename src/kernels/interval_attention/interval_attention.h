// Attention of blocks of queries over a few intervals of keys, the core of the models with a sparse pattern:
//
//   out_i = Σ_{j ∈ keys(i)} dropout(A_ij) v_j,   A_ij = exp(scale · q_i·k_j − lse_i),   lse_i = log Σ_j
//   exp(…)
//
// for each row and head. Queries come in blocks of neighbours; a block sees the keys of a fixed number of
// `KeySlot`s, each an interval, perhaps cut for each query by a band. Work and memory are those of the
// intervals: nothing of size L×L is made.
//
// The intervals are small integer tensors on the device of the data, computed from `Rows` by tensor
// operations (interval_blocks.h), so that one description serves the kernels of the CPU and, in bfloat16, of
// CUDA, which read them, and all else, where keys are gathered into blocks [B, H, G, c, m] a slice at a time
// (interval_attention_gathered.cpp). The backward pass computes the weights again from `lse`.
//
// Places. A query or key is named by its place in a list that runs over all positions [0, T), row after row;
// the list of a row fills the places of its positions. Without `order` place and position are the same;
// `order` sorts each row, differently for each head and round. Keys of `side` slots have places of their own:
// row b those from b·pitch on.
//
// Dropout draws for a weight by (row, head, query's place in its row, column): see KeySlot.
#pragma once
#include <functional>
#include <vector>

#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"

namespace lra {

// The keys begin … end − 1 of a block; the weight of key j stands in column `column` + j − begin.
struct KeySlot {
  int64_t column = 0, width = 0;  // at most `width` keys
  bool banded = false;  // only keys j of query i with low ≤ j − i ≤ high, and j ≥ least_i where given
  bool side = false;    // places of the side keys
  int64_t growth = 0;   // block g has at most (g + 1)·growth keys; the slot must then be the last
};

struct IntervalBlocks {
  int64_t size = 0;    // most queries of a block
  Tensor first, last;  // int32 [B, G]: queries first … last − 1; none where last ≤ first
  std::vector<KeySlot> slots;
  Tensor begin = {}, end = {};  // int32 [B, 1 or H, G, slots]
  int64_t low = 0, high = 0;

  int64_t columns() const;
};

// Keys besides those at the positions: either positions again, or keys and values of their own.
struct SideKeys {
  Tensor at;  // int32 [B·pitch]: positions
  Tensor kv;  // [B·pitch, 2, H, P]
  int64_t pitch = 0;
};

struct IntervalAttentionInput {
  Tensor qkv;  // [T, 3, H, P]
  Rows rows;
  std::vector<IntervalBlocks> blocks;  // together they hold every query once
  Dropout dropout = {};                // on the weights; not together with `order`
  double scale = 0;                    // 0: 1/√P
  SideKeys side = {};
  Tensor order = {};  // int32 [R·H, T]: place → position, for R rounds
  Tensor least = {};  // int32 [R·H, T]: the least place that a query's banded keys may have
  // A query sees itself only where it sees nothing else: 10⁵ is taken off its score.
  bool spare_self = false;
};

struct IntervalAttentionOutput {
  Tensor out;  // [T, R·H, P], zero outside the rows
  Tensor lse;  // [T, R·H]; may be differentiated, too
};

IntervalAttentionOutput interval_attention(const IntervalAttentionInput& input);

// The definition for one row, with the whole matrix: column(head, i, j) is the column of weight (i, j), or
// −1 where query i does not see key j. q: [H, n, P], k and v: [H, m, P]; row: its number in the whole batch.
using WeightColumn = std::function<int64_t(int64_t head, int64_t i, int64_t j)>;
Tensor dense_attention(const Tensor& q, const Tensor& k, const Tensor& v, const WeightColumn& column,
                       const Dropout& dropout, int64_t row);

}  // namespace lra
