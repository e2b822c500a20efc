// How the Sinkhorn Transformer mixes the blocks of a row ("Sparse Sinkhorn Attention", Tay et al., 2020):
//
//   M_ij = exp((s_ij + noise) / τ),   P = M, its columns and then its rows scaled to sum to 1, `iters` times
//
// for each row and head, with Gumbel noise in training. Causal: M_ij is 0 for j ≥ i, and a column is scaled
// by its sum down to row i. Entries of blocks that a row has not are 0.
//
// In logarithms: P_ij = exp(x_ij − r_i − c_j), of which an iteration makes c_j = log Σ_i exp(x_ij − r_i) and
// then r_i = log Σ_j exp(x_ij − c_j). On CUDA a block of threads has a matrix and keeps it in shared memory;
// the backward pass computes r and c of all iterations again. The causal form is made of tensor operations,
// as all is on a CPU.
#pragma once
#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/noise/noise.h"

namespace lra {

struct SortingMatrixInput {
  torch::Tensor scores;  // [B, G, H, G]: what block i's score for block j is, by row, i, head, j
  torch::Tensor used;    // int32 [B]: blocks that a row has
  Rows rows;
  double temperature = 1;
  int64_t iters = 1;
  bool causal = false, noisy = false;
  Noise noise = {};
};

torch::Tensor sorting_matrix(const SortingMatrixInput& input);  // P [B, H, G, G], of the type of scores

// By tensor operations; in double precision the definition.
torch::Tensor sorting_matrix_reference(const SortingMatrixInput& input);

}  // namespace lra
