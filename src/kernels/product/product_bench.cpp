#include <torch/types.h>

#include "kernels/kernel_bench.h"
#include "kernels/product/product.h"

namespace lra {
namespace {

struct Shape {
  const char* name;
  int64_t M, K, N;
  bool adds;  // a weight's gradient: sums over positions, in fp32
};

// The products of a feed-forward layer, beside the library's own choice.
class ProductBench : public KernelBench {
 public:
  std::string_view name() const override { return "product"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t inner = 4 * width;
    std::vector<KernelCase> all;
    for (const Shape& s : {Shape{"to four times the width", positions, width, inner, false},
                           Shape{"back to the width", positions, inner, width, false},
                           Shape{"weight gradient", inner, positions, width, true}}) {
      const auto options = torch::dtype(type).device(device);
      const Tensor a = s.adds ? torch::randn({s.K, s.M}, options).t() : torch::randn({s.M, s.K}, options),
                   b = torch::randn({s.K, s.N}, options),
                   into = torch::zeros({s.M, s.N}, options.dtype(s.adds ? torch::kFloat : type));
      const int64_t element = a.element_size(), flops = 2 * s.M * s.K * s.N,
                    bytes = (s.M * s.K + s.K * s.N) * element +
                            s.M * s.N * into.element_size() * (s.adds ? 2 : 1);
      all.push_back({s.name, bytes, [=] { s.adds ? add_product(into, a, b) : void(product(a, b)); }, flops});
      all.push_back({std::string(s.name) + ", LibTorch's", bytes, [=] { at::mm(a, b); }, flops});
    }
    return all;
  }
};

const Registered<KernelBench> bench(std::make_unique<ProductBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
