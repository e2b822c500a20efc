// Locality-sensitive hashing of "Reformer: The Efficient Transformer" (Kitaev, Kaiser, Levskaya, 2020):
//
//   bucket(q) = argmax [q·R_0, …, q·R_{half−1}, −q·R_0, …, −q·R_{half−1}]     of equals the first
//
// for each round, head and position; `half` is ⌈n/chunk⌉ for the positions of a row of length n, at most the
// number of columns. The scores are in fp32, or double where q is. On CUDA none of them is stored: a block of
// threads goes through the columns with some of the vectors, and keeps the best. There bfloat16 is multiplied
// on tensor cores, with the matrix as a sum of three numbers in bfloat16 (hash_products.cu), which loses
// nothing; widths over 128 and odd ones, float and double outside of them.
//
// Time T·H·rounds·columns·P multiply-adds; no gradient.
#pragma once
#include "batch/batch.h"
#include "kernels/noise/noise.h"

namespace lra {

// The buckets of a row are numbered 0 … 2·columns − 1, after them one for its padding.
inline int64_t hash_buckets_of_row(int64_t columns) { return 2 * columns + 1; }

// q: [T, H, P] in bfloat16, float or double, a head's elements and the heads of a position next to each
// other; matrix: [rounds, columns, P] in float, or double where q is. Result: int32 [rounds·H, T], the
// position's row · hash_buckets_of_row(columns) + its bucket. What is left over after the last row counts as
// padding of a row of its own.
torch::Tensor hash_buckets(const torch::Tensor& q, const torch::Tensor& matrix, const Rows& rows,
                           int64_t chunk);

// By tensor operations, some positions at a time.
torch::Tensor hash_buckets_portable(const torch::Tensor& q, const torch::Tensor& matrix, const Rows& rows,
                                    int64_t chunk);

// R: standard normal numbers [rounds, columns, P] on the device of noise.step, each a function of (round,
// column, place), however many there are. On CUDA one launch.
torch::Tensor hash_matrix(int64_t rounds, int64_t columns, int64_t width, const Noise& noise,
                          torch::Dtype type);

}  // namespace lra
