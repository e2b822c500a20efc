#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "kernels/kernel_bench.h"
#include "kernels/mlp_head/mlp_head.h"

namespace lra {
namespace {

// A batch as in training: a few rows, two classes, so that starting the kernels is most of it.
class MlpHeadBench : public KernelBench {
 public:
  std::string_view name() const override { return "mlp_head"; }

  std::vector<KernelCase> cases(int64_t, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    constexpr int64_t kRows = 32, kClasses = 2;
    const auto parameters = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    const auto random = [&](torch::IntArrayRef sizes) {
      Tensor t = torch::randn(sizes, torch::dtype(parameters).device(device)).requires_grad_(true);
      t.mutable_grad() = torch::zeros_like(t).detach();
      return t;
    };
    const int64_t hidden = 4 * width;
    const MlpHeadInput in{random({kRows, width}), random({hidden, width}), random({hidden}),
                          random({kClasses, hidden}), random({kClasses})};
    const int64_t weights = in.hidden_weight.numel() * in.hidden_weight.element_size();
    const Tensor logits = mlp_head(in), d_logits = torch::randn_like(logits);
    return {
        {"32 rows forward", weights,
         [=] {
           const torch::NoGradGuard none;
           mlp_head(in);
         }},
        {"32 rows backward", 3 * weights, [=] {
           const std::vector<Tensor> of{in.x, in.hidden_weight, in.hidden_bias, in.out_weight, in.out_bias};
           torch::autograd::grad({logits}, of, {d_logits}, true, false, true);
         }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<MlpHeadBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
