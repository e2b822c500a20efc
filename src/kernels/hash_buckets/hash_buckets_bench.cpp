#include "kernels/hash_buckets/hash_buckets.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kLength = 4096, kHeadWidth = 64, kChunk = 64, kRounds = 2;

class HashBucketsBench : public KernelBench {
 public:
  std::string_view name() const override { return "hash_buckets"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t length = std::min(kLength, positions), heads = std::max<int64_t>(1, width / kHeadWidth),
                  P = width / heads, columns = (length + kChunk - 1) / kChunk;
    Rows rows = lay_out(
        std::vector<int32_t>(static_cast<size_t>(positions / length), static_cast<int32_t>(length)), false);
    for (Tensor* t : {&rows.offsets, &rows.lengths, &rows.slots}) *t = t->to(device);
    const Noise noise{1, 1, torch::zeros({1}, torch::TensorOptions(device).dtype(torch::kLong))};
    const auto numbers = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    const Tensor q = torch::randn({rows.positions, heads, P}, torch::TensorOptions(device).dtype(type)),
                 matrix = hash_matrix(kRounds, columns, P, noise, numbers);
    const int64_t bytes = q.numel() * q.element_size() + rows.positions * heads * kRounds * 4;
    return {{"chunks of 64, 2 rounds", bytes, [=] { hash_buckets(q, matrix, rows, kChunk); },
             q.numel() * kRounds * columns},
            {"matrix", matrix.numel() * matrix.element_size(),
             [=] { hash_matrix(kRounds, columns, P, noise, numbers); }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<HashBucketsBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
