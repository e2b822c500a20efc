#include <gtest/gtest.h>
#include <torch/types.h>

#include "kernels/attention/attention_library.h"
#include "support/models.h"
#include "support/test_device.h"

namespace lra {
namespace {

using Results = std::vector<Tensor>;  // output and gradient of qkv, in double precision

struct Case {
  std::vector<int32_t> lengths;
  int64_t tail_rows;  // rows behind the batch's last, of 50 positions but the last, which has none
  int64_t width;
  bool causal;
};

class AttentionGpuTest : public testing::TestWithParam<AttentionLibrary> {
 protected:
  void SetUp() override {
    if (!load_cuda().available) GTEST_SKIP() << "no GPU: the libraries' attention has no emulated form";
    if (GetParam() == AttentionLibrary::kCudnn && !attention_has_cudnn()) {
      GTEST_SKIP() << "built without cuDNN's attention";
    }
  }

  static Rows rows_of(const Case& c) {
    std::vector<int32_t> lengths = c.lengths;
    for (int64_t i = 0; i + 1 < c.tail_rows; ++i) lengths.push_back(50);
    return lay_out(lengths, true);
  }

  static Rows on_gpu(const Rows& rows, const Case& c) {
    Rows moved = rows;
    for (Tensor* t : {&moved.offsets, &moved.lengths, &moved.slots}) *t = t->cuda();
    moved.count = static_cast<int64_t>(c.lengths.size());
    if (c.tail_rows > 0) moved.offsets = torch::cat({moved.offsets, moved.offsets.narrow(0, -1, 1)});
    return moved;
  }

  template <class F>
  static Results results(const AttentionInput& in, const Tensor& weights, const F& f) {
    const Tensor out = f(in);
    (out * weights.to(out.options())).sum().backward();
    return {out.detach().cpu().to(torch::kDouble), in.qkv.grad().cpu().to(torch::kDouble)};
  }

  Results ours(const Case& c, const Rows& rows, const Tensor& qkv, const Tensor& weights, double p = 0,
               int64_t step = 7) const {
    AttentionInput in{
        qkv.to(torch::kCUDA, torch::kBFloat16).detach().requires_grad_(true), on_gpu(rows, c), {}};
    in.causal = c.causal;
    if (p > 0) in.dropout = {p, 3, 99, torch::full({1}, step, torch::kLong).cuda(), in.rows.slots};
    return results(in, weights, [this](const AttentionInput& x) { return attention_by(GetParam(), x); });
  }
};

double relative_error(const Tensor& ours, const Tensor& expected) {
  return ((ours - expected).norm() / expected.norm()).item<double>();
}

TEST_P(AttentionGpuTest, EqualsTheDefinitionInEveryLayout) {
  torch::manual_seed(2);
  for (const Case& c :
       {Case{{129, 129}, 0, 64, false}, Case{{33, 5, 200, 1}, 0, 64, false}, Case{{33, 5, 200}, 3, 40, false},
        Case{{128, 300}, 2, 16, true}, Case{{70, 70}, 0, 9, true}}) {
    const Rows rows = rows_of(c);
    const Tensor qkv = torch::randn({rows.positions, 3, 3, c.width}, torch::kDouble)
                           .to(torch::kBFloat16)
                           .to(torch::kDouble)
                           .requires_grad_(true);
    const Tensor weights = torch::randn({rows.positions, 3, c.width}, torch::kDouble);
    AttentionInput in{qkv, rows, {}};
    in.causal = c.causal;
    const Results expected = results(in, weights, attention_reference), found = ours(c, rows, qkv, weights);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LT(relative_error(found[i], expected[i]), 1e-2) << "width " << c.width << " result " << i;
    }
  }
}

TEST_P(AttentionGpuTest, DropoutKeepsItsMeanDrawsAnewEachStepAndTheSameForTheSameStep) {
  const Case c{{256, 100, 256}, 2, 64, false};
  const Rows rows = rows_of(c);
  Tensor qkv = torch::zeros({rows.positions, 3, 2, 64}, torch::kDouble);
  qkv.select(1, 2).fill_(
      1);  // equal weights, values of 1: the output is the share that was kept, times 1/(1-p)
  const Tensor weights = torch::ones({rows.positions, 2, 64}, torch::kDouble);
  if (GetParam() == AttentionLibrary::kFlash) seed_device_generator(torch::kCUDA, 9, 0);
  const Results first = ours(c, rows, qkv, weights, 0.25, 7);
  EXPECT_NEAR(first[0].mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(first[1].select(1, 2).mean().item<double>(), 1, 0.01);
  if (GetParam() == AttentionLibrary::kFlash) seed_device_generator(torch::kCUDA, 9, 0);
  const Results again = ours(c, rows, qkv, weights, 0.25, 7), next = ours(c, rows, qkv, weights, 0.25, 8);
  EXPECT_TRUE(torch::equal(first[0], again[0]));
  EXPECT_TRUE(torch::equal(first[1].select(1, 2), again[1].select(1, 2)));
  EXPECT_FALSE(torch::equal(first[0], next[0]));
}

// The gradient of v is the mask transposed, as the output is the mask.
TEST_P(AttentionGpuTest, DropoutIsTheSameInBothPasses) {
  const Case c{{64, 40, 64}, 0, 64, false};
  const Rows rows = rows_of(c);
  Tensor qkv = torch::zeros({rows.positions, 3, 2, 64}, torch::kDouble),
         weights = torch::zeros({rows.positions, 2, 64}, torch::kDouble);
  for (int64_t t = 0; t < rows.positions; ++t) {
    const int64_t place = rows.slots[t].item<int64_t>() & 0xffffff;
    qkv.select(1, 2)[t].select(1, place).fill_(1);
    weights[t].select(1, place).fill_(1);
  }
  const Results found = ours(c, rows, qkv, weights, 0.25);
  int64_t at = 0;
  for (const int32_t n : c.lengths) {
    for (int64_t h = 0; h < 2; ++h) {
      const Tensor forward = found[0].narrow(0, at, n).select(1, h).narrow(1, 0, n) > 0,
                   backward = found[1].narrow(0, at, n).select(1, 2).select(1, h).narrow(1, 0, n) > 0;
      EXPECT_TRUE(torch::equal(forward, backward.t())) << "row of " << n << ", head " << h;
      EXPECT_NEAR(forward.to(torch::kDouble).mean().item<double>(), 0.75, 0.07);
    }
    at += n;
  }
}

TEST_P(AttentionGpuTest, TwiceTheSameBitsWhereDeterminismIsAskedFor) {
  torch::manual_seed(3);
  const Case c{{700, 900, 30}, 0, 64, false};
  const Rows rows = rows_of(c);
  const Tensor qkv = torch::randn({rows.positions, 3, 4, 64}, torch::kDouble),
               weights = torch::randn({rows.positions, 4, 64}, torch::kDouble);
  set_numerics(false, true);
  const Results first = ours(c, rows, qkv, weights), second = ours(c, rows, qkv, weights);
  set_numerics(false, false);
  EXPECT_TRUE(torch::equal(first[1], second[1]));
}

INSTANTIATE_TEST_SUITE_P(Libraries, AttentionGpuTest,
                         testing::Values(AttentionLibrary::kCudnn, AttentionLibrary::kFlash),
                         [](const auto& library) {
                           return library.param == AttentionLibrary::kCudnn ? "cudnn" : "flash";
                         });

}  // namespace
}  // namespace lra
