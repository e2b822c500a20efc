#include <torch/csrc/autograd/autograd.h>

#include "kernels/kernel_bench.h"
#include "kernels/sorting_matrix/sorting_matrix.h"

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kHeadWidth = 64, kBlock = 64, kLength = 4096;

// A matrix takes many passes over shared memory: bandwidth says how far it is from being free.
class SortingMatrixBench : public KernelBench {
 public:
  std::string_view name() const override { return "sorting_matrix"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t length = std::min(kLength, positions), B = positions / length,
                  G = (length + kBlock - 1) / kBlock, H = std::max<int64_t>(1, width / kHeadWidth);
    const auto options = torch::TensorOptions(device).dtype(type);
    SortingMatrixInput in;
    in.rows = lay_out(std::vector<int32_t>(static_cast<size_t>(B), static_cast<int32_t>(length)), true);
    for (Tensor* t : {&in.rows.offsets, &in.rows.lengths, &in.rows.slots}) *t = t->to(device);
    in.scores = torch::randn({B, G, H, G}, options).requires_grad_(true);
    in.used = torch::full({B}, G, options.dtype(torch::kInt));
    in.temperature = 0.75, in.iters = 8, in.noisy = true;
    in.noise = {1, 1, torch::zeros({1}, options.dtype(torch::kLong))};
    const Tensor P = sorting_matrix(in), dP = torch::randn_like(P.detach());
    const int64_t part = P.numel() * P.element_size();
    return {{"forward, 8 iterations", 2 * part,
             [in] {
               const torch::NoGradGuard none;
               sorting_matrix(in);
             }},
            {"backward, 8 iterations", 3 * part,
             [in, P, dP] { torch::autograd::grad({P}, {in.scores}, {dP}, /*retain_graph=*/true); }}};
  }
};

const Registered<KernelBench> bench(std::make_unique<SortingMatrixBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
