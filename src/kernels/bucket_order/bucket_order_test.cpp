#include "kernels/bucket_order/bucket_order.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

using torch::Tensor;

TEST(BucketOrderTest, PositionsOfABucketStayInTheirOrder) {
  const Tensor buckets = torch::tensor({2, 0, 2, 1, 0, 2, 4, 3}, torch::kInt).unsqueeze(0);
  const BucketOrder sorted = bucket_order(buckets, lay_out({6, 2}, true), 3, true);
  EXPECT_TRUE(torch::equal(sorted.order[0], torch::tensor({1, 4, 3, 0, 2, 5, 7, 6}, torch::kInt)));
  EXPECT_TRUE(torch::equal(sorted.least[0], torch::tensor({0, 0, 2, 3, 3, 3, 6, 7}, torch::kInt)));
  EXPECT_FALSE(bucket_order(buckets, lay_out({6, 2}, true), 3, false).least.defined());
}

}  // namespace
}  // namespace lra
