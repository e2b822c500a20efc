#include "kernels/bucket_order/bucket_order.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

constexpr int64_t kLength = 4096, kHeadWidth = 64, kRounds = 2, kBuckets = 129;

class BucketOrderBench : public KernelBench {
 public:
  std::string_view name() const override { return "bucket_order"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype) const override {
    const int64_t length = std::min(kLength, positions), heads = std::max<int64_t>(1, width / kHeadWidth);
    Rows rows = lay_out(
        std::vector<int32_t>(static_cast<size_t>(positions / length), static_cast<int32_t>(length)), false);
    const torch::Tensor row = rows.slots.bitwise_right_shift(24);
    const torch::Tensor buckets =
        (row * kBuckets + torch::randint(kBuckets - 1, {kRounds * heads, rows.positions}, torch::kLong))
            .to(torch::kInt)
            .to(device);
    for (torch::Tensor* t : {&rows.offsets, &rows.lengths, &rows.slots}) *t = t->to(device);
    const int64_t bytes = 4 * buckets.numel();
    return {{"order", 2 * bytes, [=] { bucket_order(buckets, rows, kBuckets, false); }},
            {"order and least", 3 * bytes, [=] { bucket_order(buckets, rows, kBuckets, true); }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<BucketOrderBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
