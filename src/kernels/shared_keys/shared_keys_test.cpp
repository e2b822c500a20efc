#include "kernels/shared_keys/shared_keys.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace lra {
namespace {

using torch::Tensor;

std::vector<Tensor> results(const Tensor& qv, bool unit, decltype(&shared_keys) f) {
  const Tensor x = qv.detach().requires_grad_(true), y = f(x, unit);
  const Tensor weights = torch::sin(torch::arange(y.numel(), y.options())).view(y.sizes());
  return {y.detach(), torch::autograd::grad({y}, {x}, {weights})[0]};
}

TEST(SharedKeysTest, EqualTheirDefinition) {
  torch::manual_seed(1);
  for (const bool unit : {true, false}) {
    Tensor qv = torch::randn({7, 2, 3, 5}, torch::kDouble);
    qv[2].zero_();
    const auto ours = results(qv, unit, shared_keys), expected = results(qv, unit, shared_keys_reference);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-12, 1e-12)) << unit << ", " << i;
    }
  }
}

TEST(SharedKeysTest, KeysHaveLengthOne) {
  const Tensor k = shared_keys(torch::randn({9, 2, 2, 16}, torch::kDouble), true).select(1, 1);
  EXPECT_TRUE(torch::allclose(k.norm(2, -1), torch::ones({9, 2}, torch::kDouble), 0, 1e-5));
}

}  // namespace
}  // namespace lra
