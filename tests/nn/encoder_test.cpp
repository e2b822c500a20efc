#include "nn/encoder.h"

#include <gtest/gtest.h>

#include "support/models.h"

namespace lra {
namespace {

const Model& transformer() { return find_model("transformer"); }

TEST(PositionsTest, AreInterleavedSinesAndCosines) {
  const Tensor table = sinusoidal_positions(50, 8);
  for (const auto& [t, i] : {std::pair{0, 0}, {1, 0}, {7, 1}, {49, 3}}) {
    const double angle = t * std::pow(10000.0, -2.0 * i / 8);
    EXPECT_DOUBLE_EQ(table[t][2 * i].item<double>(), std::sin(angle));
    EXPECT_DOUBLE_EQ(table[t][2 * i + 1].item<double>(), std::cos(angle));
  }
}

TEST(ResidualTest, TheNormTakesInTheBranch) {
  LayerNorm norm(37);
  initialize(norm, 0);
  norm.to(torch::kDouble);
  const Residual stream{torch::randn({5, 37}, torch::kDouble), torch::randn({5, 37}, torch::kDouble),
                        torch::randn({37}, torch::kDouble)};
  const auto [sum, normed] = stream.normed(norm);
  EXPECT_TRUE(torch::allclose(sum, stream.sum(), 0, 1e-12));
  EXPECT_TRUE(torch::allclose(normed, norm.reference(stream.sum()), 0, 1e-12));
}

TEST(InitTest, DrawsTheStatedDistributions) {
  class Table : public Layer {
   public:
    Table() {
      xavier = parameter("xavier", {200, 300}, Init::xavier(300, 200));
      lecun = parameter("lecun", {200, 300}, Init::lecun(300));
      normal = parameter("normal", {200, 300}, Init::normal(0.02));
    }
    Tensor xavier, lecun, normal;
  } table;
  initialize(table, 5);
  const double bound = std::sqrt(6.0 / 500);
  EXPECT_LE(table.xavier.abs().max().item<double>(), bound);
  EXPECT_NEAR(table.xavier.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
  EXPECT_NEAR(table.lecun.std().item<double>(), std::sqrt(1.0 / 300), 0.01 * std::sqrt(1.0 / 300));
  EXPECT_LE(table.lecun.abs().max().item<double>(), 2 * std::sqrt(1.0 / 300) / 0.8796256 + 1e-7);
  EXPECT_NEAR(table.normal.std().item<double>(), 0.02, 0.0003);
  EXPECT_NEAR(table.normal.mean().item<double>(), 0, 0.0005);
}

TEST(InitTest, DependsOnSeedAndNameAlone) {
  EncoderConfig shallow = small_config(), deep = small_config();
  deep.layers = 3;
  const auto a = small_encoder(transformer(), shallow), b = small_encoder(transformer(), deep);
  EXPECT_TRUE(torch::equal(a->named_parameters()["blocks.1.attention.q.weight"],
                           b->named_parameters()["blocks.1.attention.q.weight"]));
  EXPECT_FALSE(torch::equal(a->named_parameters()["blocks.1.attention.q.weight"],
                            a->named_parameters()["blocks.1.attention.k.weight"]));
}

TEST(EncoderTest, ClsIsAValidPositionWhateverTheFirstToken) {
  EncoderConfig c = small_config();
  auto encoder = small_encoder(transformer(), c, torch::kDouble);
  Batch batch = random_batch({6, 3});
  const Tensor logits = encoder->forward(batch, {});
  batch.input.tokens[8] = batch.input.tokens[8].item<int>() % 16 + 1;  // the first token of the second row
  EXPECT_FALSE(torch::allclose(logits[1], encoder->forward(batch, {})[1]));
  EXPECT_TRUE(torch::equal(logits[0], encoder->forward(batch, {})[0]));
}

TEST(EncoderTest, TwoTowersShareWeightsAndUseTheFourFeatures) {
  EncoderConfig c = small_config();
  c.two_inputs = true;
  auto encoder = small_encoder(transformer(), c, torch::kDouble);
  Batch batch = random_batch({9, 5});
  batch.second = random_batch({4, 7}).input;
  const Tensor ab = encoder->forward(batch, {});
  EXPECT_EQ(ab.sizes(), (std::vector<int64_t>{2, 10}));
  std::swap(batch.input, batch.second);
  EXPECT_FALSE(torch::allclose(ab, encoder->forward(batch, {})));  // x₁−x₂ knows the order
}

TEST(EncoderTest, ARowLongerThanTheModelIsRefused) {
  auto encoder = small_encoder(transformer(), small_config());
  EXPECT_THROW(encoder->forward(random_batch({65}), {}), std::exception);
}

}  // namespace
}  // namespace lra
