#include <torch/types.h>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

// A classifier's batch is a few rows; as many bytes as the other kernels have show its bandwidth.
class CrossEntropyBench : public KernelBench {
 public:
  std::string_view name() const override { return "cross_entropy"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const auto parameters = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    std::vector<KernelCase> all;
    for (const int64_t classes : {10, 257}) {
      const int64_t rows = positions * width / classes / 2,
                    bytes = rows * (classes * 2 * static_cast<int64_t>(torch::elementSize(parameters)) + 8);
      const Tensor logits = torch::randn({rows, classes}, torch::dtype(parameters).device(device)),
                   labels = torch::randint(classes, {rows}, torch::dtype(torch::kLong).device(device));
      all.push_back({fmt::format("{} classes, loss and gradient", classes), bytes,
                     [=] { cross_entropy(logits, labels, 1.0); }});
    }
    return all;
  }
};

const Registered<KernelBench> bench(std::make_unique<CrossEntropyBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
