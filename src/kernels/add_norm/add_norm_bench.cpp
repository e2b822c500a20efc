#include <torch/csrc/autograd/autograd.h>

#include "kernels/add_norm/add_norm.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

class AddNormBench : public KernelBench {
 public:
  std::string_view name() const override { return "add_norm"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const auto input = [&](double p) { return make_input(positions, width, device, type, p); };
    const int64_t tensor = positions * width * static_cast<int64_t>(c10::elementSize(type));
    const int64_t statistics = 2 * positions * (type == torch::kDouble ? 8 : 4);
    return {{"forward", 4 * tensor + statistics, [in = input(0)] { add_norm(in); }},
            {"forward, dropout 0.1", 4 * tensor + statistics + 8 * positions,
             [in = input(0.1)] { add_norm(in); }},
            {"backward", 4 * tensor + statistics, backward(input(0))},
            {"backward, dropout 0.1", 5 * tensor + statistics + 8 * positions, backward(input(0.1))}};
  }

 private:
  static AddNormInput make_input(int64_t positions, int64_t width, const torch::Device& device,
                                 torch::Dtype type, double p) {
    const auto real = torch::TensorOptions(device).dtype(type);
    const auto parameters = real.dtype(type == torch::kDouble ? torch::kDouble : torch::kFloat);
    AddNormInput in;
    in.x = torch::randn({positions, width}, real).requires_grad_(true);
    in.branch = torch::randn({positions, width}, real).requires_grad_(true);
    in.bias = torch::randn({width}, parameters).requires_grad_(true);
    in.weight = torch::ones({width}, parameters).requires_grad_(true);
    in.offset = torch::zeros({width}, parameters).requires_grad_(true);
    const auto integers = real.dtype(torch::kLong);
    in.dropout = {p, 1, 1, torch::zeros({1}, integers), torch::arange(positions, integers)};
    // As in training: gradients have a place to go.
    for (const Tensor& t : {in.bias, in.weight, in.offset}) t.mutable_grad() = torch::zeros_like(t.detach());
    return in;
  }

  static std::function<void()> backward(const AddNormInput& in) {
    const AddNormOutput out = add_norm(in);
    const Tensor d_sum = torch::randn_like(out.sum.detach()), d_normed = torch::randn_like(d_sum);
    return [in, out, d_sum, d_normed] {
      torch::autograd::grad({out.sum, out.normed}, {in.x, in.branch}, {d_sum, d_normed},
                            /*retain_graph=*/true);
    };
  }
};

const Registered<KernelBench> bench(std::make_unique<AddNormBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
