#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/model.h"
#include "support/models.h"
#include "support/pattern.h"
#include "support/test_device.h"

namespace lra {
namespace {

// The kernels that only this model has, together: hashes, their sorting, keys of length 1, the sum over
// hashes.
TEST(ReformerGpuTest, ABlockEqualsTheBruteForceInDoublePrecision) {
  const TestDevice device;
  if (!device.emulated()) GTEST_SKIP() << "the brute force is computed where the block is: on the CPU";
  const Model& model = find_model("reformer");
  for (const char* yaml :
       {"{chunk: 6}", "{chunk: 4, rounds: 3}", "{chunk: 6, normalize_keys: false, rounds: 1}"}) {
    for (const bool causal : {false, true}) {
      for (const bool packed : {true, false}) {
        EncoderConfig c = small_config();
        c.max_length = 80, c.causal = causal, c.pooling = "mean", c.dropout = 0;
        const auto block = model.block(c, *options_of(model, yaml), 0);
        initialize(*block, 3);
        block->to(torch::kDouble);
        Forward f;
        f.training = true, f.seed = 7, f.step = torch::full({1}, 5, torch::kLong);
        f.rows = lay_out({33, 1, 70, 9}, packed);
        torch::manual_seed(5);
        const Tensor x = torch::randn({f.rows.positions, c.width}, torch::kDouble).requires_grad_(true);
        const Tensor valid = valid_positions(f.rows),
                     weights = valid * torch::randn({f.rows.positions, c.width}, torch::kDouble);
        std::vector<Tensor> inputs = block->parameters(), ours;
        inputs.push_back(x);
        const Tensor y = device.run([&] {
          Tensor sum = block->forward({x}, f).sum();
          ours = torch::autograd::grad({(sum * weights).sum()}, inputs);
          return sum;
        });
        const Tensor expected = block->reference(x, f);
        const std::string what = fmt::format("{} causal {} packed {}", yaml, causal, packed);
        EXPECT_LT(((y - expected) * valid).abs().max().item<double>(), 1e-10) << what;
        const auto brute = torch::autograd::grad({(expected * weights).sum()}, inputs);
        for (size_t i = 0; i < ours.size(); ++i)
          EXPECT_TRUE(torch::allclose(ours[i], brute[i], 1e-8, 1e-10)) << what << ", input " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lra
