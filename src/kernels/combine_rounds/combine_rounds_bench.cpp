#include <torch/csrc/autograd/autograd.h>

#include "kernels/combine_rounds/combine_rounds.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kHeadWidth = 64, kRounds = 2;

class CombineRoundsBench : public KernelBench {
 public:
  std::string_view name() const override { return "combine_rounds"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const auto options = torch::TensorOptions(device).dtype(type);
    const int64_t heads = std::max<int64_t>(1, width / kHeadWidth), all = kRounds * heads;
    const Tensor out = torch::randn({positions, all, width / heads}, options).requires_grad_(true);
    const auto statistics = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    const Tensor lse = torch::randn({positions, all}, options.dtype(statistics)).requires_grad_(true);
    const Tensor y = combine_rounds(out, lse, kRounds), dy = torch::randn_like(y.detach());
    const int64_t part = y.numel() * y.element_size(), sums = lse.numel() * lse.element_size();
    return {{"forward", (kRounds + 1) * part + sums,
             [out, lse] {
               const torch::NoGradGuard none;
               combine_rounds(out, lse, kRounds);
             }},
            {"backward", (2 * kRounds + 1) * part + 2 * sums, [out, lse, y, dy] {
               torch::autograd::grad({y}, {out, lse}, {dy}, /*retain_graph=*/true);
             }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<CombineRoundsBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
