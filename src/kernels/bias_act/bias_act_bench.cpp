#include <torch/csrc/autograd/autograd.h>

#include "kernels/bias_act/bias_act.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

struct Input {
  Tensor x, bias;
  Dropout dropout;

  Tensor run() const { return bias_activation(x, bias, Activation::kGelu, dropout); }
};

class BiasActBench : public KernelBench {
 public:
  std::string_view name() const override { return "bias_act"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const auto input = [&](double p) { return make_input(positions, width, device, type, p); };
    const int64_t tensor = positions * width * static_cast<int64_t>(c10::elementSize(type));
    return {{"forward", 2 * tensor, [in = input(0)] { in.run(); }},
            {"forward, dropout 0.1", 2 * tensor + 8 * positions, [in = input(0.1)] { in.run(); }},
            {"backward", 3 * tensor, backward(input(0))},
            {"backward, dropout 0.1", 3 * tensor + 8 * positions, backward(input(0.1))}};
  }

 private:
  static Input make_input(int64_t positions, int64_t width, const torch::Device& device, torch::Dtype type,
                          double p) {
    const auto real = torch::TensorOptions(device).dtype(type), integers = real.dtype(torch::kLong);
    const auto parameters = real.dtype(type == torch::kDouble ? torch::kDouble : torch::kFloat);
    const Input in{torch::randn({positions, width}, real).requires_grad_(true),
                   torch::randn({width}, parameters).requires_grad_(true),
                   {p, 1, 1, torch::zeros({1}, integers), torch::arange(positions, integers)}};
    in.bias.mutable_grad() = torch::zeros_like(in.bias.detach());  // as in training: a place for it to go
    return in;
  }

  static std::function<void()> backward(const Input& in) {
    const Tensor y = in.run(), dy = torch::randn_like(y.detach());
    return [in, y, dy] { torch::autograd::grad({y}, {in.x}, {dy}, /*retain_graph=*/true); };
  }
};

const Registered<KernelBench> bench(std::make_unique<BiasActBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
