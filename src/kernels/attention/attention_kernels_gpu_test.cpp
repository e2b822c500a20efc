#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/torch_compat.h"
#include "kernels/attention/attention_kernels.h"
#include "support/test_device.h"

namespace lra {
namespace {

using Results = std::vector<Tensor>;  // output and gradient of qkv, in double precision

struct Case {
  std::vector<int32_t> lengths;
  bool packed = true, causal = false;
  double dropout = 0;
  int64_t width = 64;
};

class AttentionKernelsGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const AttentionInput any{
        torch::zeros({1, 3, 1, 64}, torch::kBFloat16).to(device_), lay_out({1}, true), {}};
    const std::string why = device_.run([&] { return attention_kernels_refusal(any); });
    if (!why.empty()) GTEST_SKIP() << "attention's kernels do not run here: " << why;
  }

  static constexpr int64_t kHeads = 2;
  struct Problem {
    Tensor qkv, weights;  // on the CPU, in double precision, values as bf16 has them
    Rows rows;
    Dropout dropout;
    bool causal;
  };
  static Problem problem(const Case& c) {
    torch::manual_seed(5);
    Problem p;
    p.rows = lay_out(c.lengths, c.packed, 3);
    const auto rounded = [](const Tensor& x) { return x.to(torch::kBFloat16).to(torch::kDouble); };
    p.qkv = rounded(torch::randn({p.rows.positions, 3, kHeads, c.width}, torch::kDouble) * 1.5);
    p.weights = rounded(torch::randn({p.rows.positions, kHeads, c.width}, torch::kDouble));
    p.dropout = {c.dropout, 5, uint64_t{77} << 32 | 13, torch::full({1}, 7, torch::kLong), p.rows.slots};
    p.causal = c.causal;
    return p;
  }

  static Results expected(const Problem& p) {
    AttentionInput in{p.qkv.detach().clone().requires_grad_(true), p.rows, p.dropout, p.causal};
    const Tensor out = attention_reference(in);
    (out * p.weights).sum().backward();
    return {out.detach(), in.qkv.grad()};
  }

  // The gradient of the queries comes by atomic additions, or where two runs shall give the same bits, by a
  // kernel of its own.
  Results found(const Problem& p, bool deterministic = false) const {
    struct Numerics {
      explicit Numerics(bool deterministic) { set_numerics(false, deterministic); }
      ~Numerics() { set_numerics(false, false); }
    } const numerics(deterministic);
    Rows rows = p.rows;
    for (Tensor* t : {&rows.offsets, &rows.lengths, &rows.slots}) *t = device_.copy(*t);
    Dropout dropout = p.dropout;
    dropout.step = device_.copy(dropout.step);
    dropout.slots = rows.slots;
    AttentionInput in{device_.copy(p.qkv.to(torch::kBFloat16)).requires_grad_(true), rows, dropout, p.causal};
    return device_.run([&] {
      const Tensor out = attention_by_kernels(in);
      (out * device_.copy(p.weights.to(torch::kBFloat16))).sum().backward();
      return Results{out.detach().cpu().to(torch::kDouble), in.qkv.grad().cpu().to(torch::kDouble)};
    });
  }

  // To bf16's rounding; where all cancels, to that of what did.
  static void expect_near(const Tensor& x, const Tensor& y, const std::string& what) {
    const double size = y.norm().item<double>() + 1e-1, largest = y.abs().max().item<double>() + 1e-1;
    EXPECT_LT((x - y).norm().item<double>(), 1e-2 * size) << what;
    EXPECT_LT((x - y).abs().max().item<double>(), 2e-2 * largest) << what;
  }
  void expect_found(const Problem& p, const Results& expected) const {
    for (const bool deterministic : {false, true}) {
      SCOPED_TRACE(deterministic ? "deterministic" : "");
      const Results is = found(p, deterministic);
      expect_near(is[0], expected[0], "output");
      for (int64_t part = 0; part < 3; ++part) {
        expect_near(is[1].select(1, part), expected[1].select(1, part), fmt::format("gradient {}", part));
      }
    }
  }

  TestDevice device_;
};

TEST_F(AttentionKernelsGpuTest, EqualTheDefinitionInRowsOfAnyLength) {
  for (const Case& c : {Case{{129, 1, 64, 300}}, Case{{200, 200}, false}, Case{{1}}, Case{{530, 7, 128}}}) {
    const Problem p = problem(c);
    expect_found(p, expected(p));
  }
}

TEST_F(AttentionKernelsGpuTest, FindEveryOneOfManyRows) {
  std::vector<int32_t> lengths(70);
  for (size_t b = 0; b < lengths.size(); ++b) lengths[b] = static_cast<int32_t>(1 + b * 37 % 150);
  const Problem p = problem({lengths, true, false, 0.1, 16});
  expect_found(p, expected(p));
}

TEST_F(AttentionKernelsGpuTest, EqualTheDefinitionInTheCausalForm) {
  const Problem p = problem({{129, 1, 64, 300}, true, true});
  expect_found(p, expected(p));
}

TEST_F(AttentionKernelsGpuTest, DropTheWeightsThatTheDefinitionDrops) {
  for (const Case& c : {Case{{129, 3, 100}, true, false, 0.3}, Case{{270, 40}, true, true, 0.1},
                        Case{{1300, 3}, true, true, 0.1}}) {  // as many stages as there are buffers, and more
    const Problem p = problem(c);
    expect_found(p, expected(p));
  }
}

TEST_F(AttentionKernelsGpuTest, EqualTheDefinitionForHeadsOfAnyWidth) {
  for (const int64_t width : {8, 16, 24, 32, 40, 48, 56}) {
    SCOPED_TRACE(width);
    const Problem p = problem({{129, 70}, true, false, width % 16 == 0 ? 0.2 : 0.0, width});
    expect_found(p, expected(p));
  }
}

// Later keys matter more, by far. (The gradients of queries are then sums that cancel.)
TEST_F(AttentionKernelsGpuTest, KeepTheirSumsWhenScoresRise) {
  for (const bool causal : {false, true}) {
    SCOPED_TRACE(causal ? "causal" : "");
    Problem p = problem({{256, 190}, true, causal});
    const Tensor rise = (torch::arange(446, torch::kDouble) / 16).view({-1, 1, 1});
    p.qkv.select(1, 0).copy_((p.qkv.select(1, 0).abs() + 0.5).to(torch::kBFloat16));
    p.qkv.select(1, 1).copy_((p.qkv.select(1, 1) * 0.25 + rise).to(torch::kBFloat16));
    const Results ours = found(p), theirs = expected(p);
    expect_near(ours[0], theirs[0], "output");
    expect_near(ours[1].select(1, 2), theirs[1].select(1, 2), "gradient of v");
    EXPECT_TRUE(ours[1].isfinite().all().item<bool>());
  }
}

// A weight that is computed for no key at all, from a score of 0, is then infinite.
TEST_F(AttentionKernelsGpuTest, KeepTheirSumsWhenAllScoresAreFarBelowZero) {
  for (const bool causal : {false, true}) {
    SCOPED_TRACE(causal ? "causal" : "");
    Problem p = problem({{100, 70}, true, causal});
    p.qkv.select(1, 0).copy_((p.qkv.select(1, 0) * 0.25 + 8).to(torch::kBFloat16));
    p.qkv.select(1, 1).copy_((p.qkv.select(1, 1) * 0.25 - 8).to(torch::kBFloat16));
    const Results theirs = expected(p);
    for (const bool deterministic : {false, true}) {
      const Results ours = found(p, deterministic);
      expect_near(ours[0], theirs[0], "output");
      expect_near(ours[1].select(1, 2), theirs[1].select(1, 2), "gradient of v");
      EXPECT_TRUE(ours[1].isfinite().all().item<bool>());
    }
  }
}

// The largest score less itself is far from 0 when both are rounded.
TEST_F(AttentionKernelsGpuTest, EndWhenScoresAreHuge) {
  Problem p = problem({{200}});
  p.qkv.narrow(1, 0, 2).mul_(1 << 14);
  found(p);
}

TEST_F(AttentionKernelsGpuTest, GiveTheSameBitsTwice) {
  const Problem p = problem({{300, 90}, true, false, 0.2});
  const Results first = found(p, true), second = found(p, true);
  EXPECT_TRUE(torch::equal(first[0], second[0]));
  EXPECT_TRUE(torch::equal(first[1], second[1]));
}

TEST_F(AttentionKernelsGpuTest, TakeTheRowsOfATailForRows) {
  Problem p = problem({{100, 60, 50, 50}});
  const Results all = expected(p);
  p.rows.count = 2;
  p.rows.offsets = torch::cat({p.rows.offsets, p.rows.offsets.narrow(0, -1, 1)});  // the last has no position
  expect_found(p, all);
}

// What stands around the sums would lose its sign if 0 were added to it.
TEST_F(AttentionKernelsGpuTest, AddToNothingButTheirSums) {
  constexpr int64_t kPositions = 200, kAround = 1 << 15;
  const auto options = torch::dtype(torch::kBFloat16).device(device_.device());
  const Tensor qkv = torch::zeros({kPositions, 3, 1, 64}, options), d_qkv = torch::empty_like(qkv),
               out = torch::zeros({kPositions, 1, 64}, options),
               lse = torch::zeros({1, kPositions}, options.dtype(torch::kFloat)),
               delta = torch::empty_like(lse),
               offsets = device_.copy(torch::tensor({int64_t{0}, kPositions}).to(torch::kInt));
  for (const bool causal : {false, true}) {
    AttentionData d{};
    d.qkv = qkv.const_data_ptr();
    d.offsets = offsets.const_data_ptr<int32_t>();
    d.positions = kPositions;
    d.rows = d.heads = 1;
    d.width = 64;
    d.scale = 1;
    d.causal = causal;
    const Tensor sums = torch::full({kAround + attention_query_sums(d) + kAround}, -0.f, lse.options());
    const AttentionBackwardArguments arguments{d,
                                               out.const_data_ptr(),
                                               out.const_data_ptr(),
                                               lse.const_data_ptr<float>(),
                                               delta.mutable_data_ptr<float>(),
                                               sums.mutable_data_ptr<float>() + kAround,
                                               d_qkv.mutable_data_ptr()};
    device_.run([&] {
      launch(attention_backward_cuda, arguments, "attention backward");
      return 0;
    });
    EXPECT_TRUE(sums.narrow(0, 0, kAround).signbit().all().item<bool>());
    EXPECT_TRUE(sums.narrow(0, -kAround, kAround).signbit().all().item<bool>());
  }
}

TEST_F(AttentionKernelsGpuTest, RefuseWhatTheyDoNotKnow) {
  const Problem p = problem({{20}});
  device_.run([&] {
    EXPECT_NE(attention_kernels_refusal({p.qkv, p.rows, {}}), "");
    EXPECT_NE(attention_kernels_refusal({p.qkv.narrow(3, 0, 30).to(torch::kBFloat16), p.rows, {}}), "");
    EXPECT_NE(attention_kernels_refusal({torch::zeros({20, 3, 2, 72}, torch::kBFloat16), p.rows, {}}), "");
    return 0;
  });
}

}  // namespace
}  // namespace lra
