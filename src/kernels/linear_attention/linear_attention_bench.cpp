#include <torch/csrc/autograd/autograd.h>

#include "kernels/kernel_bench.h"
#include "kernels/linear_attention/linear_attention.h"

namespace lra {
namespace {

using torch::Tensor;

// Heads of width 64, rows of 4096 positions; the softmax map with 256 features, as the Performer has it.
class LinearAttentionBench : public KernelBench {
 public:
  std::string_view name() const override { return "linear_attention"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t tensor = positions * width * static_cast<int64_t>(c10::elementSize(type));
    std::vector<KernelCase> all;
    for (const auto& [label, map] : {std::pair{"elu", FeatureMap::kElu}, {"softmax", FeatureMap::kSoftmax}}) {
      const LinearAttentionInput in = make_input(positions, width, device, type, map);
      all.push_back({std::string(label) + " forward", 4 * tensor, [in] { linear_attention(in); }});
      all.push_back({std::string(label) + " backward", 7 * tensor, backward(in)});
    }
    return all;
  }

 private:
  static LinearAttentionInput make_input(int64_t positions, int64_t width, const torch::Device& device,
                                         torch::Dtype type, FeatureMap map) {
    constexpr int64_t kLength = 4096, kFeatures = 256;
    const int64_t heads = std::max<int64_t>(1, width / 64);
    std::vector<int32_t> lengths(static_cast<size_t>(positions / kLength), kLength);
    if (positions % kLength > 0) lengths.push_back(static_cast<int32_t>(positions % kLength));
    LinearAttentionInput in;
    in.rows = lay_out(lengths, /*packed=*/true);
    for (Tensor* t : {&in.rows.offsets, &in.rows.lengths, &in.rows.slots}) *t = t->to(device);
    const auto real = torch::TensorOptions(device).dtype(type);
    in.qkv = torch::randn({positions, 3, heads, width / heads}, real).requires_grad_(true);
    in.map = map;
    if (map == FeatureMap::kSoftmax) {
      in.projection = torch::randn({kFeatures, width / heads}, real.dtype(torch::kDouble));
    }
    return in;
  }

  static std::function<void()> backward(const LinearAttentionInput& in) {
    const Tensor out = linear_attention(in), d_out = torch::randn_like(out.detach());
    return [in, out, d_out] { torch::autograd::grad({out}, {in.qkv}, {d_out}, /*retain_graph=*/true); };
  }
};

const Registered<KernelBench> bench(std::make_unique<LinearAttentionBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
