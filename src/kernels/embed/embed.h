// Tokens to the first activations, in one pass:
//
//   x[r] = dropout(table[tokens[r]] + positions[place(r)])
//
// place(r) is the position's place in its row, the low part of its slot (Rows::slot_of). Token V, one past
// the table's last row, is the CLS position: the row `cls` stands for the table's.
//
// Back, with g = dropout(dx):  d_table[v] = Σ g[r] over tokens[r] = v,  d_cls likewise,
// d_positions[p] = Σ g[r] over the positions of rows with place(r) = p. Positions that belong to no row
// (padding, the unused end of a buffer) hold some valid token and slot; their dx must be zero.
#pragma once
#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"

namespace lra {

struct EmbedInput {
  Tensor tokens;  // int32 [T]
  Rows rows;
  Tensor table;      // [V, D]
  Tensor cls;        // [D]; undefined: none
  Tensor positions;  // [M, D], learned or fixed, in the type of the table; undefined: none
  Dropout dropout;
  torch::Dtype type = torch::kFloat;  // of the result: bfloat16 (CUDA), float, double
};

Tensor embed(const EmbedInput& input);  // [T, D]

// From the definition, step by step.
Tensor embed_reference(const EmbedInput& input);

}  // namespace lra
