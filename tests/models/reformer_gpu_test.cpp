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
  const Model& model = find_model("reformer");
  for (const char* yaml :
       {"{chunk: 6}", "{chunk: 4, rounds: 3}", "{chunk: 6, normalize_keys: false, rounds: 1}"}) {
    for (const bool causal : {false, true}) {
      for (const bool packed : {true, false}) {
        EncoderConfig c = small_config();
        c.max_length = 80, c.causal = causal, c.pooling = "mean", c.dropout = 0;
        const auto options = options_of(model, yaml);
        const auto made = [&](const torch::Device& where) {
          auto block = model.block(c, *options, 0);
          initialize(*block, 3);
          block->to(where, torch::kDouble);
          return block;
        };
        Forward f;
        f.training = true, f.seed = 7, f.step = torch::full({1}, 5, torch::kLong);
        f.rows = lay_out({33, 1, 70, 9}, packed);
        Forward there = f;
        for (Tensor* t : {&there.step, &there.rows.offsets, &there.rows.lengths, &there.rows.slots})
          *t = device.copy(*t);
        torch::manual_seed(5);
        const Tensor x = torch::randn({f.rows.positions, c.width}, torch::kDouble);
        const Tensor valid = valid_positions(f.rows),
                     weights = valid * torch::randn({f.rows.positions, c.width}, torch::kDouble);
        // Output, then the gradients of parameters and input, on the CPU.
        const auto results = [&](const std::shared_ptr<Block>& block, const torch::Device& where,
                                 const auto& output) {
          const Tensor own = x.detach().to(where, torch::kDouble, false, true).requires_grad_(true);
          std::vector<Tensor> inputs = block->parameters();
          inputs.push_back(own);
          const Tensor y = output(own);
          std::vector<Tensor> all = torch::autograd::grad({(y * weights.to(where)).sum()}, inputs);
          all.insert(all.begin(), y.detach().cpu() * valid);
          for (Tensor& t : all) t = t.cpu();
          return all;
        };
        const auto block = made(device), brute = made(torch::kCPU);
        const auto ours = device.run([&] {
          return results(block, device, [&](const Tensor& in) { return block->forward({in}, there).sum(); });
        });
        const auto expected =
            results(brute, torch::kCPU, [&](const Tensor& in) { return brute->reference(in, f); });
        for (size_t i = 0; i < ours.size(); ++i) {
          EXPECT_TRUE(torch::allclose(ours[i], expected[i], 1e-8, 1e-10))
              << yaml << " causal " << causal << " packed " << packed << ", result " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lra
