// The same code on the GPU: what must agree with the CPU, and how closely.
#include <gtest/gtest.h>

#include "kernels/attention/attention.h"
#include "support/train_steps.h"

namespace lra {
namespace {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!load_cuda().available) GTEST_SKIP() << load_cuda().why;
  }
  static Rows on_device(Rows rows) {
    for (Tensor* t : {&rows.offsets, &rows.lengths, &rows.slots}) *t = t->to(kCuda);
    return rows;
  }
  static Dropout dropout_on(const torch::Device& device, double p, const Rows& rows) {
    return {p, 5, 42, torch::full({1}, 7, torch::TensorOptions(torch::kLong).device(device)),
            rows.slots.to(device)};
  }
  static inline const torch::Device kCuda{torch::kCUDA, 0};
};

TEST_F(GpuTest, TrainingInSinglePrecisionFollowsTheCpu) {
  const auto cpu = train_steps({torch::kCPU, torch::kFloat, torch::kFloat, EngineKind::kEager}, 20).first;
  expect_near(train_steps({kCuda, torch::kFloat, torch::kFloat, EngineKind::kGraph}, 20).first, cpu, 1e-4);
}

TEST_F(GpuTest, TrainingInBfloat16StaysWithinItsRounding) {
  for (const auto& lengths : {std::vector<int32_t>{20, 7, 13, 1, 9, 9}, std::vector<int32_t>(6, 31)}) {
    const auto cpu =
        train_steps({torch::kCPU, torch::kFloat, torch::kFloat, EngineKind::kEager, lengths}, 20).first;
    expect_near(train_steps({kCuda, torch::kFloat, torch::kBFloat16, EngineKind::kGraph, lengths}, 20).first,
                cpu, 0.05);
  }
}

// Attention dropout included: the replayed graph must draw new numbers every step, the same as the eager
// engine.
TEST_F(GpuTest, TheGraphGivesTheStepsOfTheEagerEngine) {
  for (const auto compute : {torch::kFloat, torch::kBFloat16}) {
    RunOptions o{kCuda, torch::kFloat, compute, EngineKind::kEager};
    o.attention_dropout = 0.3;
    const auto eager = train_steps(o, 12);
    o.kind = EngineKind::kGraph;
    const auto graph = train_steps(o, 12);
    expect_near(graph.first, eager.first, compute == torch::kFloat ? 1e-5 : 2e-2);
  }
}

class DeterministicTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    set_numerics(false, true);
  }
  void TearDown() override { set_numerics(false, false); }
};

TEST_F(DeterministicTest, TwoRunsGiveTheSameBits) {
  for (const auto compute : {torch::kFloat, torch::kBFloat16}) {
    for (const auto& lengths : {std::vector<int32_t>{20, 7, 60, 1, 9, 9}, std::vector<int32_t>(6, 31)}) {
      RunOptions o{kCuda, torch::kFloat, compute, EngineKind::kGraph, lengths};
      o.attention_dropout = 0.1;
      EXPECT_TRUE(torch::equal(train_steps(o, 8).second, train_steps(o, 8).second)) << compute;
    }
  }
}

TEST_F(DeterministicTest, AnEngineThatStartsAtALaterStepGoesOnWithTheSameBits) {
  EncoderConfig c = small_config();
  const auto parameters = [&](const std::vector<int>& legs) {
    auto encoder = small_encoder(find_model("transformer"), c);
    encoder->set_compute_type(torch::kBFloat16);
    TrainState state = make_train_state(*encoder, kCuda, torch::kFloat, torch::kBFloat16);
    FixedSource source({random_batch({20, 7, 13, 1, 9, 9}).to(kCuda)});
    for (const int steps : legs) {
      auto engine = make_engine(EngineKind::kGraph, *encoder, state, {}, {"constant", 1e-3, 10, 100}, 4);
      for (int i = 0; i < steps; ++i) engine->step(source);
    }
    return state.flat.parameters.cpu();
  };
  EXPECT_TRUE(torch::equal(parameters({9}), parameters({4, 5})));
}

std::vector<Tensor> attention_results(AttentionInput in, const torch::Device& device, torch::Dtype type) {
  const Tensor valid = valid_positions(in.rows).unsqueeze(-1);
  in.qkv = in.qkv.detach().to(device, type).requires_grad_(true);
  if (device.is_cuda())
    in.rows = Rows{in.rows.offsets.to(device),
                   in.rows.lengths.to(device),
                   in.rows.slots.to(device),
                   in.rows.count,
                   in.rows.positions,
                   in.rows.longest,
                   in.rows.pitch,
                   in.rows.full};
  const Tensor out = attention(in);
  // What stands between rows is read by nobody.
  const Tensor weights = torch::cos(torch::arange(out.numel(), torch::kDouble)).view(out.sizes()) * valid;
  (out * weights.to(out.options())).sum().backward();
  return {out.detach().cpu().to(torch::kDouble), in.qkv.grad().cpu().to(torch::kDouble)};
}

TEST_F(GpuTest, AttentionEqualsTheDefinition) {
  torch::manual_seed(1);
  for (const int64_t P : {16, 40, 64, 9}) {
    for (const auto& lengths : {std::vector<int32_t>{33, 5, 200}, std::vector<int32_t>{129, 129}}) {
      for (const bool packed : {true, false}) {
        const Rows rows = lay_out(lengths, packed);
        const AttentionInput in{torch::randn({rows.positions, 3, 2, P}), rows, {}};
        const Tensor valid = valid_positions(rows).unsqueeze(-1);
        const auto expected = attention_results(in, torch::kCPU, torch::kDouble);
        for (const auto type : {torch::kFloat, torch::kBFloat16}) {
          const auto ours = attention_results(in, kCuda, type);
          const double tolerance = type == torch::kFloat ? 1e-4 : 2e-2;
          EXPECT_LT(((ours[0] - expected[0]) * valid).norm().item<double>(),
                    tolerance * expected[0].norm().item<double>())
              << P << " " << packed << " " << type;
          EXPECT_LT(((ours[1] - expected[1]) * valid.unsqueeze(-1)).norm().item<double>(),
                    tolerance * expected[1].norm().item<double>())
              << P << " " << packed << " " << type;
        }
      }
    }
  }
}

// The backward pass of a library's kernel must draw the mask of its forward pass. With q = k = 0 all weights
// are equal; v = 1 makes the output, and an upstream gradient of 1 the gradient of v, a picture of the mask.
void expect_one_mask(const Tensor& out, const Tensor& d_v, const std::vector<int32_t>& lengths) {
  int64_t at = 0;
  for (const int32_t n : lengths) {
    for (int64_t h = 0; h < out.size(1); ++h) {
      const Tensor forward = out.narrow(0, at, n).select(1, h).narrow(1, 0, n).to(torch::kFloat),
                   backward = d_v.narrow(0, at, n).select(1, h).narrow(1, 0, n).to(torch::kFloat);
      EXPECT_TRUE(torch::equal(forward > 0, backward.t() > 0)) << "length " << n << " head " << h;
      const double kept = (forward > 0).to(torch::kDouble).mean().item<double>();
      EXPECT_NEAR(kept, 0.7, 0.07) << "length " << n << " head " << h;
    }
    at += n;
  }
}

TEST_F(GpuTest, AttentionDropoutDrawsOneMaskInBothPasses) {
  constexpr int64_t H = 2, P = 64;
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    for (const auto& lengths : {std::vector<int32_t>{64, 64}, std::vector<int32_t>{64, 40, 64}}) {
      const Rows host = lay_out(lengths, true), rows = on_device(host);
      Tensor qkv = torch::zeros({rows.positions, 3, H, P});
      Tensor up = torch::zeros({rows.positions, H, P});
      for (int64_t t = 0, place = 0; t < rows.positions; ++t) {
        place = host.slots[t].item<int64_t>() & 0xffffff;
        qkv.select(1, 2)[t].select(1, place).fill_(1);
        up[t].select(1, place).fill_(1);
      }
      qkv = qkv.to(kCuda, type).requires_grad_(true);
      seed_device_generator(kCuda, 9, uint64_t{5} << 32);
      const Tensor out = attention({qkv, rows, dropout_on(kCuda, 0.3, rows)});
      (out * up.to(out.options())).sum().backward();
      expect_one_mask(out.detach().cpu(), qkv.grad().select(1, 2).cpu(), lengths);
    }
  }
}

}  // namespace
}  // namespace lra
