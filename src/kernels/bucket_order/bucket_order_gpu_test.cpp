#include <gtest/gtest.h>

#include "kernels/bucket_order/bucket_order.h"
#include "kernels/bucket_order/bucket_order_arguments.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  std::vector<int32_t> lengths;
  bool packed;
  int64_t lists, buckets;  // of a row
  int32_t left_over = 0;   // positions after the last row
};

// Rows of one position, rows longer than the warps' parts, one bucket, more buckets than warps can count
// each for itself, padding, what is left over.
const std::vector<Case> kCases{
    {{1}, true, 1, 1},          {{5, 1, 40}, true, 2, 3},     {{700, 31, 2}, true, 3, 17},
    {{33, 600}, false, 2, 131}, {{90, 7}, true, 1, 1, 70},    {{1300}, true, 2, 2000},
    {{64, 100}, true, 1, 9000}, {{3, 2}, false, 4, 24000, 5}, {{20, 3}, true, 1, 30000},
};

struct Input {
  Tensor buckets;
  Rows rows;
};

Input make_input(const Case& c) {
  torch::manual_seed(1);
  Input in{{}, lay_out(c.lengths, c.packed)};
  std::vector<Tensor> parts;
  const auto add = [&](int64_t row, int64_t positions) {
    parts.push_back(
        torch::randint(row * c.buckets, (row + 1) * c.buckets, {c.lists, positions}, torch::kInt));
  };
  for (int64_t b = 0; b < in.rows.count; ++b) {
    add(b, (in.rows.offsets[b + 1] - in.rows.offsets[b]).item<int64_t>());
  }
  add(in.rows.count, c.left_over);
  in.rows.positions += c.left_over;
  in.buckets = torch::cat(parts, 1);
  return in;
}

TEST(BucketOrderGpuTest, EqualsTensorOperations) {
  const TestDevice device;
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    const BucketOrder expected = bucket_order_portable(in.buckets, true);
    for (const bool with_least : {true, false}) {
      const BucketOrder ours = device.run([&] {
        Rows rows = in.rows;
        rows.offsets = device.copy(rows.offsets);
        return bucket_order(device.copy(in.buckets), rows, c.buckets, with_least);
      });
      EXPECT_TRUE(torch::equal(ours.order.to(torch::kCPU), expected.order)) << c.lengths << " " << c.buckets;
      EXPECT_EQ(ours.least.defined(), with_least);
      if (with_least) {
        EXPECT_TRUE(torch::equal(ours.least.to(torch::kCPU), expected.least))
            << c.lengths << " " << c.buckets;
      }
    }
  }
}

TEST(BucketOrderGpuTest, MoreBucketsTakeFewerWarps) {
  EXPECT_EQ(bucket_order_warps(131), 16);
  EXPECT_EQ(bucket_order_warps(9000), 1);
  EXPECT_EQ(bucket_order_warps(30000), 0);
}

}  // namespace
}  // namespace lra
