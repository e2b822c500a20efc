#include <torch/csrc/autograd/autograd.h>

#include "kernels/kernel_bench.h"
#include "kernels/shared_keys/shared_keys.h"

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kHeadWidth = 64;

class SharedKeysBench : public KernelBench {
 public:
  std::string_view name() const override { return "shared_keys"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t heads = std::max<int64_t>(1, width / kHeadWidth);
    const Tensor qv =
        torch::randn({positions, 2, heads, width / heads}, torch::TensorOptions(device).dtype(type))
            .requires_grad_(true);
    const Tensor out = shared_keys(qv, true), d_out = torch::randn_like(out.detach());
    const int64_t part = out.numel() / 3 * out.element_size();
    return {{"forward", 5 * part,
             [qv] {
               const torch::NoGradGuard none;
               shared_keys(qv, true);
             }},
            {"backward", 6 * part,
             [qv, out, d_out] { torch::autograd::grad({out}, {qv}, {d_out}, /*retain_graph=*/true); }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<SharedKeysBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
