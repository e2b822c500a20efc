#include <gtest/gtest.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"
#include "support/test_device.h"

namespace lra {
namespace {

Tensor dropped(const Tensor& x, const Rows& rows, const torch::Device& device) {
  const Tensor step = torch::full({1}, 7, torch::TensorOptions(torch::kLong).device(device));
  return dropout(x.to(device), {0.3, 5, 42, step, rows.slots.to(device)}).cpu();
}

TEST(DropoutGpuTest, GivesTheBitsOfTheCpu) {
  const TestDevice device;
  for (const int64_t width : {7, 64, 515}) {
    const Rows rows = lay_out({5, 129, 1}, true, 3);
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const Tensor x = torch::randn({rows.positions, width}, type);
      EXPECT_TRUE(
          torch::equal(device.run([&] { return dropped(x, rows, device); }), dropped(x, rows, torch::kCPU)));
    }
  }
}

TEST(DropoutGpuTest, InBfloat16KeepsTheSameElements) {
  const TestDevice device;
  const Rows rows = lay_out({33, 33}, true);
  const Tensor x = torch::ones({66, 40}, torch::kBFloat16);
  const Tensor kept = device.run([&] { return dropped(x, rows, device); }) != 0;
  EXPECT_TRUE(torch::equal(kept, dropped(x.to(torch::kFloat), rows, torch::kCPU) != 0));
}

}  // namespace
}  // namespace lra
