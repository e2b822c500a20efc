#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "kernels/kernel_bench.h"
#include "kernels/pool/pool.h"

namespace lra {
namespace {

constexpr int64_t kLength = 4096;

class PoolBench : public KernelBench {
 public:
  std::string_view name() const override { return "pool"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t activations = positions * width * static_cast<int64_t>(torch::elementSize(type));
    std::vector<KernelCase> all;
    for (const double p : {0.0, 0.1}) {
      const std::string suffix = p > 0 ? ", dropout 0.1" : "";
      const PoolInput in = input(positions, width, device, type, p);
      all.push_back({"mean forward" + suffix, 2 * activations, [in] {
                       const torch::NoGradGuard none;
                       pool(in);
                     }});
      const Tensor pooled = pool(in), d_pooled = torch::randn_like(pooled);
      all.push_back({"mean backward" + suffix, (p > 0 ? 4 : 3) * activations, [in, pooled, d_pooled] {
                       const std::vector<Tensor> of{in.x, in.branch, in.bias, in.weight, in.offset};
                       torch::autograd::grad({pooled}, of, {d_pooled}, true, false, true);
                     }});
    }
    return all;
  }

 private:
  static PoolInput input(int64_t positions, int64_t width, const torch::Device& device, torch::Dtype type,
                         double p) {
    const auto options = torch::dtype(type).device(device);
    const auto parameters = options.dtype(type == torch::kDouble ? torch::kDouble : torch::kFloat);
    const int64_t rows = std::max<int64_t>(1, positions / kLength);
    PoolInput in;
    std::vector<int32_t> lengths(static_cast<size_t>(rows), static_cast<int32_t>(positions / rows));
    lengths.back() += static_cast<int32_t>(positions % rows);
    in.rows = lay_out(lengths, true);
    in.rows.offsets = in.rows.offsets.to(device);
    in.rows.lengths = in.rows.lengths.to(device);
    in.rows.slots = in.rows.slots.to(device);
    in.x = torch::randn({positions, width}, options).requires_grad_(true);
    in.branch = torch::randn({positions, width}, options).requires_grad_(true);
    for (Tensor* t : {&in.bias, &in.weight, &in.offset}) {
      *t = torch::randn({width}, parameters).requires_grad_(true);
      t->mutable_grad() = torch::zeros_like(*t).detach();
    }
    if (p > 0) in.dropout = {p, 1, 2, torch::zeros({1}, options.dtype(torch::kLong)), in.rows.slots};
    return in;
  }
};

const Registered<KernelBench> bench(std::make_unique<PoolBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
