#include "kernels/adamw/adamw.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

class AdamWBench : public KernelBench {
 public:
  std::string_view name() const override { return "adamw"; }

  // As many parameters as positions · width: float, with the bfloat16 copy where activations are of that
  // type.
  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const bool copied = type == torch::kBFloat16;
    const int64_t n = positions * width, bytes = type == torch::kDouble ? 8 : 4;
    const auto options =
        torch::TensorOptions().device(device).dtype(type == torch::kDouble ? type : torch::kFloat);
    const auto zeros = [&](int64_t size, torch::Dtype t) { return torch::zeros({size}, options.dtype(t)); };
    AdamWState s;
    s.parameters = torch::randn({n}, options);
    s.gradients = torch::randn({n}, options);
    s.first = torch::zeros({n}, options);
    s.second = torch::zeros({n}, options);
    if (copied) s.working = zeros(n, torch::kBFloat16);
    s.step = zeros(1, torch::kLong);
    s.bad_step = zeros(1, torch::kLong) - 1;
    s.sums = zeros(4, torch::kDouble);
    s.scratch = adamw_scratch(s.parameters);
    AdamWOptions o;
    o.schedule = {1, 0.05, 1000, 5000};
    o.decayed_end = n;
    o.clip = 1;
    o.zero_gradients = true;
    const Tensor loss = torch::zeros({}, options), correct = torch::zeros({}, options.dtype(torch::kLong));
    // g for the norm; p, g, m, v; p, m, v and zeros back.
    return {{copied ? "step, bfloat16 copy" : "step", n * (9 * bytes + (copied ? 2 : 0)),
             [=] { adamw_step(s, o, loss, correct, 32); }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<AdamWBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
