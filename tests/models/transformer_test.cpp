#include <gtest/gtest.h>

#include "models/model.h"

namespace lra {
namespace {

// Sizes and counts of the Long Range Arena, by configuration.
struct Published {
  const char* name;
  int64_t N, H, E, Q, F, V, C, L;
  const char *pooling, *positions;
  bool two_inputs;
  int64_t parameters;
};

class TransformerCountTest : public testing::TestWithParam<Published> {};

TEST_P(TransformerCountTest, IsThatOfTheArena) {
  const Published& p = GetParam();
  EncoderConfig c;
  c.layers = p.N, c.heads = p.H, c.width = p.E, c.qkv_width = p.Q, c.ff_width = p.F;
  c.vocab_size = p.V, c.num_classes = p.C, c.max_length = p.L;
  c.pooling = p.pooling, c.positions = p.positions, c.two_inputs = p.two_inputs;
  const Model& model = find_model("transformer");
  const auto options = model.options();
  const Encoder encoder(
      c, [&](const EncoderConfig& config, int64_t i) { return model.block(config, *options, i); });
  EXPECT_EQ(encoder.parameter_count(), p.parameters) << p.name;
}

// The counts are those of the arena's code, derived from its configurations.
INSTANTIATE_TEST_SUITE_P(
    Arena, TransformerCountTest,
    testing::Values(
        Published{"ListOps, released", 4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal", false,
                  8'948'746},
        Published{"ListOps, paper", 6, 8, 512, 512, 2048, 17, 10, 2000, "cls", "sinusoidal", false,
                  19'983'370},
        Published{"Text, released", 4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal", false,
                  3'486'722},
        Published{"Text, paper", 6, 8, 512, 512, 2048, 257, 2, 4000, "cls", "sinusoidal", false, 20'089'858},
        Published{"Retrieval, paper's head and CLS", 4, 4, 128, 128, 512, 257, 2, 4000, "cls", "sinusoidal",
                  true, 1'088'002},
        Published{"CIFAR-10, released", 1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned", false, 248'458},
        Published{"Pathfinder, released", 4, 4, 32, 16, 32, 256, 2, 1024, "mean", "sinusoidal", false,
                  26'530},
        Published{"Path-X, released", 1, 2, 32, 16, 32, 256, 2, 16384, "mean", "learned", false, 537'954},
        Published{"Pathfinder64, released", 2, 4, 32, 32, 32, 256, 2, 4096, "cls", "learned", false, 153'186},
        Published{"Pathfinder256, released", 2, 4, 32, 32, 32, 256, 2, 65536, "cls", "learned", false,
                  2'119'266}));

TEST(TransformerTest, ParameterNamesSayWhereTheyAre) {
  EncoderConfig c;
  c.vocab_size = 17, c.num_classes = 10, c.max_length = 8;
  const Model& model = find_model("transformer");
  const auto encoder = make_encoder(model, c, *model.options(), 0);
  const auto names = encoder->named_parameters();
  for (const char* name :
       {"embedding.weight", "cls", "blocks.3.attention.q.weight", "blocks.0.feed_forward.in.bias",
        "blocks.1.attention_norm.weight", "norm.bias", "head.0.bias", "head.1.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace lra
