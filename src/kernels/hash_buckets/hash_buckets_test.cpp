#include "kernels/hash_buckets/hash_buckets.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kChunk = 3;

// Bucket of position t by the definition, −1 where it is in no row.
int64_t defined_bucket(const Tensor& q, const Tensor& matrix, const Rows& rows, int64_t round, int64_t head,
                       int64_t t) {
  for (int64_t b = 0; b < rows.count; ++b) {
    const int64_t at = rows.offsets[b].item<int64_t>(), n = rows.lengths[b].item<int64_t>();
    if (t < at || t >= at + n) continue;
    const Tensor scores = matrix[round].narrow(0, 0, (n + kChunk - 1) / kChunk).matmul(q[t][head]);
    return b * hash_buckets_of_row(matrix.size(1)) + torch::cat({scores, -scores}).argmax().item<int64_t>();
  }
  return -1;
}

TEST(HashBucketsTest, EqualTheirDefinition) {
  torch::manual_seed(1);
  for (const bool packed : {true, false}) {
    const Rows rows = lay_out({20, 1, 7}, packed);
    const int64_t columns = (rows.longest + kChunk - 1) / kChunk;
    const Tensor q = torch::randn({rows.positions, 2, 5}, torch::kDouble),
                 matrix = torch::randn({3, columns, 5}, torch::kDouble);
    const Tensor buckets = hash_buckets(q, matrix, rows, kChunk);
    EXPECT_EQ(buckets.sizes(), (std::vector<int64_t>{6, rows.positions}));
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t t = 0; t < rows.positions; ++t) {
        const int64_t expected = defined_bucket(q, matrix, rows, i / 2, i % 2, t),
                      found = buckets[i][t].item<int64_t>();
        if (expected >= 0) {
          EXPECT_EQ(found, expected) << i << ", " << t;
        } else {
          EXPECT_EQ(found % hash_buckets_of_row(columns), 2 * columns) << i << ", " << t;
        }
      }
    }
  }
}

TEST(HashBucketsTest, WhatIsLeftOverComesAfterTheLastRow) {
  Rows rows = lay_out({5, 4}, true);
  rows.positions = 12;
  rows.slots = torch::zeros({12}, torch::kLong);
  const Tensor buckets = hash_buckets(torch::randn({12, 1, 4}), torch::randn({1, 2, 4}), rows, 3);
  for (int64_t t = 9; t < 12; ++t) EXPECT_EQ(buckets[0][t].item<int64_t>(), 2 * 5 + 4);
}

TEST(HashMatrixTest, NumbersDoNotDependOnHowManyThereAre) {
  const Noise noise{4, 5, torch::full({1}, 6, torch::kLong)};
  const Tensor few = hash_matrix(2, 3, 8, noise, torch::kDouble),
               many = hash_matrix(3, 7, 8, noise, torch::kDouble);
  EXPECT_TRUE(torch::equal(few, many.narrow(0, 0, 2).narrow(1, 0, 3)));
  EXPECT_FALSE(torch::equal(many[0], many[1]));
  EXPECT_LT(many.mean().abs().item<double>(), 0.4);
}

}  // namespace
}  // namespace lra
