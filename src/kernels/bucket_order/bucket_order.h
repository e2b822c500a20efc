// The positions of each row in the order of their buckets, those of one bucket as they were: what
// interval_attention takes as `order` and `least`. On CUDA a counting sort, one launch, in which a block of
// threads has one row of one head and round.
#pragma once
#include "batch/batch.h"

namespace lra {

struct BucketOrder {
  torch::Tensor order;  // int32 [N, T]: place → position
  // int32 [N, T]: the first place of the bucket that is at this place; undefined where not asked for.
  torch::Tensor least = {};
};

// buckets: int32 [N, T], those of row b from b·buckets_of_row to (b + 1)·buckets_of_row − 1; what is left
// over after the last row counts as one more.
BucketOrder bucket_order(const torch::Tensor& buckets, const Rows& rows, int64_t buckets_of_row,
                         bool with_least);

// By tensor operations.
BucketOrder bucket_order_portable(const torch::Tensor& buckets, bool with_least);

}  // namespace lra
