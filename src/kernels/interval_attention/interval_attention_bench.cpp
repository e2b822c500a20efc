#include <torch/csrc/autograd/autograd.h>

#include "kernels/interval_attention/interval_blocks.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

constexpr int64_t kLength = 4096, kHeadWidth = 64;

struct Pattern {
  IntervalAttentionInput in;
  int64_t pairs;  // of a query and a key it sees, in all rows
};

class IntervalAttentionBench : public KernelBench {
 public:
  std::string_view name() const override { return "interval_attention"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    std::vector<KernelCase> all;
    const auto add = [&](const std::string& what, const Pattern& p) {
      const int64_t part = p.in.qkv.numel() / 3 * static_cast<int64_t>(c10::elementSize(type));
      const int64_t product = p.pairs * p.in.qkv.size(2) * p.in.qkv.size(3);  // multiply-adds of each
      // q kᵀ and A v; backward q kᵀ again, dO vᵀ, and one for each gradient.
      all.push_back({what + " forward", 4 * part,
                     [in = p.in] {
                       const torch::NoGradGuard none;
                       interval_attention(in);
                     },
                     2 * product});
      const Tensor out = interval_attention(p.in).out, d_out = torch::randn_like(out);
      all.push_back({what + " backward", 8 * part,
                     [in = p.in, out, d_out] {
                       torch::autograd::grad({out}, {in.qkv}, {d_out}, /*retain_graph=*/true);
                     },
                     5 * product});
    };
    for (const double dropout : {0.0, 0.1}) {
      const std::string suffix = dropout > 0 ? ", dropout 0.1," : "";
      const auto input = [&] { return make_input(positions, width, device, type, dropout); };
      add("blocks of 50" + suffix, window(input(), 50, 0, 0));
      add("window of 512" + suffix, window(input(), 64, 255, 256));
    }
    return all;
  }

 private:
  static IntervalAttentionInput make_input(int64_t positions, int64_t width, const torch::Device& device,
                                           torch::Dtype type, double dropout) {
    const int64_t length = std::min(kLength, positions), heads = std::max<int64_t>(1, width / kHeadWidth);
    IntervalAttentionInput in;
    const auto count = static_cast<size_t>(positions / length);
    in.rows = lay_out(std::vector<int32_t>(count, static_cast<int32_t>(length)), false);
    for (Tensor* t : {&in.rows.offsets, &in.rows.lengths, &in.rows.slots}) *t = t->to(device);
    in.qkv =
        torch::randn({in.rows.positions, 3, heads, width / heads}, torch::TensorOptions(device).dtype(type))
            .requires_grad_(true);
    in.dropout = {dropout, 1, 1, torch::zeros({1}, torch::TensorOptions(device).dtype(torch::kLong)),
                  in.rows.slots};
    return in;
  }

  // Blocks that see themselves, or, with a reach, each query so many keys around it.
  static Pattern window(IntervalAttentionInput in, int64_t size, int64_t left, int64_t right) {
    const RowBlocks rows = row_blocks(in.rows, size);
    const bool banded = left + right > 0;
    in.blocks = {{.size = size,
                  .first = rows.first,
                  .last = rows.last,
                  .slots = {{.column = 0, .width = size + left + right, .banded = banded}},
                  .begin = slot_table({torch::maximum(rows.first - left, rows.start)}),
                  .end = slot_table({torch::minimum(rows.last + right, rows.end)}),
                  .low = -left,
                  .high = right}};
    int64_t seen = 0;  // by the queries of a row
    for (int64_t i = 0, n = in.rows.longest; i < n; ++i) {
      const int64_t block = i / size * size;
      seen += banded ? std::min(i, left) + 1 + std::min(n - 1 - i, right) : std::min(block + size, n) - block;
    }
    return {in, in.rows.count * seen};
  }
};

const Registered<KernelBench> bench(std::make_unique<IntervalAttentionBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
