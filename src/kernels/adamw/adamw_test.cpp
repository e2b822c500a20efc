#include "kernels/adamw/adamw.h"

#include <numbers>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace lra {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

AdamWState random_state(int64_t n, torch::Dtype type, bool working = false) {
  torch::manual_seed(3);
  AdamWState s;
  s.parameters = torch::randn({n}, type);
  s.gradients = torch::zeros({n}, type);
  s.first = torch::zeros({n}, type);
  s.second = torch::zeros({n}, type);
  if (working) s.working = s.parameters.to(torch::kBFloat16);
  s.step = torch::zeros({1}, torch::kLong);
  s.bad_step = torch::full({1}, -1, torch::kLong);
  s.sums = torch::zeros({4}, torch::kDouble);
  s.scratch = adamw_scratch(s.parameters);
  return s;
}

AdamWState copy_of(const AdamWState& s) {
  return {s.parameters.clone(),
          s.gradients.clone(),
          s.first.clone(),
          s.second.clone(),
          s.working.defined() ? s.working.clone() : Tensor(),
          s.step.clone(),
          s.bad_step.clone(),
          s.sums.clone(),
          s.scratch.clone()};
}

AdamWOptions decaying(int64_t decayed_end) {
  AdamWOptions o;
  o.schedule = {0, 0.01, 0, 100};
  o.decayed_end = decayed_end;
  return o;
}

// A step with the gradients and the loss that belong to its number.
using Step = decltype(&adamw_step);
void step_with_numbers(Step step, const AdamWState& s, const AdamWOptions& o, int64_t number) {
  torch::manual_seed(100 + static_cast<uint64_t>(number));
  s.gradients.copy_(torch::randn(s.gradients.sizes(), torch::kDouble));
  step(s, o, torch::scalar_tensor(3.5 + static_cast<double>(number), torch::kFloat),
       torch::scalar_tensor(number, torch::kLong), 7);
}

void expect_close(const AdamWState& ours, const AdamWState& expected, double tolerance) {
  const auto close = [&](const Tensor& a, const Tensor& b) {
    return torch::allclose(a.to(torch::kDouble), b.to(torch::kDouble), tolerance, tolerance);
  };
  EXPECT_TRUE(close(ours.parameters, expected.parameters));
  EXPECT_TRUE(close(ours.first, expected.first));
  EXPECT_TRUE(close(ours.second, expected.second));
  EXPECT_TRUE(close(ours.sums, expected.sums));
  EXPECT_TRUE(torch::equal(ours.step, expected.step));
  EXPECT_TRUE(torch::equal(ours.bad_step, expected.bad_step));
}

class AdamWSizeTest : public testing::TestWithParam<int64_t> {};

TEST_P(AdamWSizeTest, EqualsItsDefinitionInDoublePrecisionOverFiveSteps) {
  const AdamWState ours = random_state(GetParam(), torch::kDouble), expected = copy_of(ours);
  AdamWOptions o = decaying(GetParam() / 2);
  o.schedule = {1, 0.05, 2, 100};
  o.clip = 10;
  for (int64_t i = 0; i < 5; ++i) {
    step_with_numbers(adamw_step, ours, o, i);
    step_with_numbers(adamw_step_reference, expected, o, i);
    expect_close(ours, expected, 1e-12);
  }
}

TEST_P(AdamWSizeTest, InSinglePrecisionIsWithinItsRounding) {
  const AdamWState ours = random_state(GetParam(), torch::kFloat);
  AdamWState expected = random_state(GetParam(), torch::kDouble);
  expected.parameters.copy_(ours.parameters);
  for (int64_t i = 0; i < 5; ++i) {
    step_with_numbers(adamw_step, ours, decaying(GetParam()), i);
    step_with_numbers(adamw_step_reference, expected, decaying(GetParam()), i);
    expect_close(ours, expected, 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AdamWSizeTest, testing::Values(1, 3, 17, 1000, 8191, 8193, 50021));

// The definition itself, number by number.
TEST(AdamWTest, MovesOneParameterByTheFormula) {
  AdamWState s = random_state(1, torch::kDouble);
  s.parameters.fill_(2);
  const AdamWOptions o = decaying(1);
  double p = 2, m = 0, v = 0;
  for (int64_t t = 1; t <= 5; ++t) {
    const double g = 0.3 * static_cast<double>(t) - 1;
    s.gradients.fill_(g);
    adamw_step(s, o, torch::zeros({}), torch::zeros({}, torch::kLong), 1);
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double mean = m / (1 - std::pow(o.beta1, t)), square = v / (1 - std::pow(o.beta2, t));
    p = p - 0.01 * o.weight_decay * p - 0.01 * mean / (std::sqrt(square) + o.epsilon);
    EXPECT_NEAR(s.parameters.item<double>(), p, 1e-14) << t;
  }
}

TEST(AdamWTest, GradientsAboveTheNormAreClippedAndTheNormBeforeIsCounted) {
  const int64_t n = 1000;
  const AdamWState clipped = random_state(n, torch::kDouble), scaled = copy_of(clipped);
  AdamWOptions o = decaying(n);
  scaled.gradients.copy_(torch::randn({n}, torch::kDouble));
  clipped.gradients.copy_(scaled.gradients);
  const double norm = scaled.gradients.norm().item<double>();
  scaled.gradients.mul_(0.5 / (norm + 1e-6));
  const Tensor loss = torch::zeros({}), correct = torch::zeros({}, torch::kLong);
  adamw_step(scaled, o, loss, correct, 1);
  o.clip = 0.5;
  adamw_step(clipped, o, loss, correct, 1);
  EXPECT_TRUE(torch::allclose(clipped.first, scaled.first, 1e-12, 1e-15));
  EXPECT_TRUE(torch::allclose(clipped.parameters, scaled.parameters, 1e-12, 1e-12));
  EXPECT_NEAR(clipped.sums[3].item<double>(), norm, 1e-10);
}

TEST(AdamWTest, GradientsBelowTheNormAreNotClipped) {
  const AdamWState clipped = random_state(100, torch::kDouble), free = copy_of(clipped);
  AdamWOptions o = decaying(100);
  step_with_numbers(adamw_step, free, o, 0);
  o.clip = 1e3;
  step_with_numbers(adamw_step, clipped, o, 0);
  EXPECT_TRUE(torch::equal(clipped.parameters, free.parameters));
}

TEST(AdamWTest, WeightsDecayOnlyBeforeTheStatedEnd) {
  const AdamWState s = random_state(20000, torch::kDouble);
  const Tensor before = s.parameters.clone();
  adamw_step(s, decaying(10001), torch::zeros({}), torch::zeros({}, torch::kLong), 1);
  EXPECT_TRUE(torch::allclose(s.parameters.narrow(0, 0, 10001), before.narrow(0, 0, 10001) * (1 - 0.01 * 0.1),
                              1e-14, 0));
  EXPECT_TRUE(torch::equal(s.parameters.narrow(0, 10001, 9999), before.narrow(0, 10001, 9999)));
}

TEST(AdamWTest, ADecayedEndOfZeroOrBeyondTheBufferIsFine) {
  for (const int64_t end : {int64_t{0}, int64_t{1} << 40}) {
    const AdamWState s = random_state(9000, torch::kDouble);
    const Tensor before = s.parameters.clone();
    adamw_step(s, decaying(end), torch::zeros({}), torch::zeros({}, torch::kLong), 1);
    EXPECT_TRUE(torch::allclose(s.parameters, before * (end ? 0.999 : 1.0), 1e-14, 0)) << end;
  }
}

TEST(AdamWTest, ANonFiniteGradientIsNotedOnceAndStopsEverythingButStepAndSums) {
  const AdamWState s = random_state(9000, torch::kFloat, true);
  const AdamWOptions o = decaying(9000);
  for (int64_t i = 0; i < 2; ++i) step_with_numbers(adamw_step, s, o, i);
  const AdamWState before = copy_of(s);
  const Tensor loss = torch::ones({}), correct = torch::full({}, 2, torch::kLong);
  s.gradients[8999] = kNaN;
  adamw_step(s, o, loss, correct, 4);
  s.gradients.fill_(1);
  adamw_step(s, o, loss, correct, 4);
  s.gradients[0] = std::numeric_limits<double>::infinity();
  adamw_step(s, o, loss, correct, 4);
  EXPECT_EQ(s.bad_step.item<int64_t>(), 2);
  EXPECT_EQ(s.step.item<int64_t>(), 5);
  EXPECT_TRUE(torch::equal(s.parameters, before.parameters));
  EXPECT_TRUE(torch::equal(s.first, before.first));
  EXPECT_TRUE(torch::equal(s.second, before.second));
  EXPECT_TRUE(torch::equal(s.working, before.working));
  EXPECT_TRUE(torch::equal(s.sums.narrow(0, 0, 3) - before.sums.narrow(0, 0, 3),
                           torch::tensor({3.0, 6.0, 12.0}, torch::kDouble)));
}

TEST(AdamWTest, ANonFiniteLossStopsInTheTypeItComesIn) {
  for (const auto type : {torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    const AdamWState s = random_state(10, torch::kFloat);
    adamw_step(s, decaying(10), torch::full({}, kNaN, type), torch::zeros({}, torch::kLong), 1);
    EXPECT_EQ(s.bad_step.item<int64_t>(), 0);
  }
}

TEST(AdamWTest, SquaresThatOverflowTheTypeOfTheSecondMomentStop) {
  const AdamWState single = random_state(10, torch::kFloat), twice = random_state(10, torch::kDouble);
  for (const auto& s : {single, twice}) {
    s.gradients.fill_(1e20);
    adamw_step(s, decaying(10), torch::zeros({}), torch::zeros({}, torch::kLong), 1);
  }
  EXPECT_EQ(single.bad_step.item<int64_t>(), 0);
  EXPECT_EQ(twice.bad_step.item<int64_t>(), -1);
}

TEST(AdamWTest, TheWorkingCopyIsTheRoundingOfTheParameters) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const AdamWState s = random_state(9001, type, true);
    for (int64_t i = 0; i < 3; ++i) step_with_numbers(adamw_step, s, decaying(0), i);
    EXPECT_TRUE(torch::equal(s.working, s.parameters.to(torch::kBFloat16)));
  }
}

TEST(AdamWTest, GradientsAreLeftAloneOrZeroedAsAsked) {
  AdamWOptions o = decaying(9001);
  const AdamWState s = random_state(9001, torch::kFloat);
  s.gradients.fill_(2);
  o.clip = 1e-3;
  const Tensor loss = torch::zeros({}), correct = torch::zeros({}, torch::kLong);
  adamw_step(s, o, loss, correct, 1);
  EXPECT_TRUE((s.gradients == 2).all().item<bool>());
  o.zero_gradients = true;
  adamw_step(s, o, loss, correct, 1);
  EXPECT_TRUE((s.gradients == 0).all().item<bool>());
  s.gradients.fill_(kNaN);  // stopped: zeroed all the same
  adamw_step(s, o, loss, correct, 1);
  EXPECT_TRUE((s.gradients == 0).all().item<bool>());
}

TEST(AdamWTest, HasTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const AdamWState one = random_state(1000003, type, true), two = copy_of(one);
    AdamWOptions o = decaying(500001);
    o.clip = 1;
    for (int64_t i = 0; i < 2; ++i) {
      at::set_num_threads(1);
      step_with_numbers(adamw_step, one, o, i);
      at::set_num_threads(2);
      step_with_numbers(adamw_step, two, o, i);
    }
    EXPECT_TRUE(torch::equal(one.parameters, two.parameters));
    EXPECT_TRUE(torch::equal(one.working, two.working));
    EXPECT_TRUE(torch::equal(one.sums, two.sums));
  }
  at::set_num_threads(threads);
}

TEST(AdamWTest, ABufferOfTheWrongSizeIsRefused) {
  AdamWState s = random_state(10, torch::kFloat);
  s.second = torch::zeros({9});
  EXPECT_THROW(adamw_step(s, decaying(10), torch::zeros({}), torch::zeros({}, torch::kLong), 1), c10::Error);
}

// The rate that a step really uses, seen in how far weight decay shrinks a parameter without gradient.
TEST(AdamWTest, UsesTheRateOfTheStepBeforeItsCount) {
  const AdamWState s = random_state(1, torch::kDouble);
  AdamWOptions o = decaying(1);
  o.schedule = {1, 0.05, 4, 100};
  for (int64_t step = 0; step < 8; ++step) {
    const double before = s.parameters.item<double>();
    adamw_step(s, o, torch::zeros({}), torch::zeros({}, torch::kLong), 1);
    EXPECT_NEAR(1 - s.parameters.item<double>() / before, 0.1 * learning_rate(o.schedule, step), 1e-14);
  }
}

TEST(LearningRateTest, ConstantRisesAndStays) {
  const ScheduleNumbers s{0, 0.5, 10, 100};
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 0.15);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 99), 0.5);
}

TEST(LearningRateTest, InverseRootFallsAfterTheWarmUp) {
  const ScheduleNumbers s{1, 0.5, 10, 100};
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.5 * 0.4 / std::sqrt(10.0));
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5 / std::sqrt(10.0));
  EXPECT_DOUBLE_EQ(learning_rate(s, 50), 0.5 / std::sqrt(50.0));
}

TEST(LearningRateTest, CosineFallsAndBeginsAgain) {
  const ScheduleNumbers s{2, 0.5, 10, 100};
  const auto cosine = [](double share) { return 0.25 * (1 + std::cos(std::numbers::pi * share)); };
  EXPECT_DOUBLE_EQ(learning_rate(s, 5), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 60), cosine(0.5));
  EXPECT_DOUBLE_EQ(learning_rate(s, 99), cosine(0.89));
  EXPECT_DOUBLE_EQ(learning_rate(s, 110), 0.5);
}

TEST(LearningRateTest, IsZeroAtTheFirstStepOfAWarmUpAndFullWithoutOne) {
  for (const int kind : {0, 1, 2}) {
    EXPECT_EQ(learning_rate({kind, 0.5, 10, 100}, 0), 0) << kind;
    EXPECT_EQ(learning_rate({kind, 0.5, 0, 100}, 0), 0.5) << kind;
  }
}

}  // namespace
}  // namespace lra
