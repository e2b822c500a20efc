#include <gtest/gtest.h>

#include "models/model.h"
#include "support/error_text.h"
#include "support/models.h"

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

TEST(TransformerTest, TheReleasedTwoTowerHeadHasItsParameters) {
  EncoderConfig c;
  c.layers = 4, c.heads = 4, c.width = c.qkv_width = 128, c.ff_width = 512;
  c.vocab_size = 257, c.num_classes = 2, c.max_length = 4000, c.two_inputs = true;
  c.pooling = "first", c.pair_head = "concat";
  const Model& model = find_model("transformer");
  const auto options = model.options();
  const auto encoder = make_encoder(model, c, *options, 0);
  EXPECT_EQ(encoder->parameter_count(), 1'087'618);  // of the arena's code
  EXPECT_EQ(shell_parameters(c) + 4 * model.block_parameters(c, *options), 1'087'618);
  Batch batch;
  batch.rows = 1;
  for (Sequences* s : {&batch.input, &batch.second}) {
    s->rows = lay_out({5}, true);
    s->tokens = torch::tensor({4, 8, 15, 16, 23}, torch::kInt);
  }
  EXPECT_EQ(encoder->forward(batch, {}).sizes(), (std::vector<int64_t>{1, 2}));
}

// The arena's encoder as its code has it, in single precision, where −10¹⁰ swallows what it is added to.
class ReleasedEncoder {
 public:
  ReleasedEncoder(const Encoder& ours, const EncoderConfig& config) : c_(config) {
    for (const auto& p : ours.named_parameters()) parameters_[p.key()] = p.value().detach();
  }

  Tensor logits(const Tensor& ids) const {                          // [B, L]
    Tensor mask = ids > 0, x = p("embedding.weight").index({ids});  // [B, L, E]
    const int64_t B = ids.size(0);
    if (c_.cls()) {
      x = torch::cat({p("cls").expand({B, 1, c_.width}), x}, 1);
      mask = torch::cat({mask.narrow(1, 0, 1), mask}, 1);
    }
    x = x + sinusoidal_positions(x.size(1), c_.width).to(torch::kFloat);
    const Tensor both = mask.unsqueeze(2).logical_and(mask.unsqueeze(1)).unsqueeze(1);  // [B, 1, n, n]
    const Tensor bias = torch::where(both, torch::zeros({}), torch::full({}, -1e10f));
    for (int64_t i = 0; i < c_.layers; ++i) {
      const std::string block = "blocks." + std::to_string(i) + ".";
      x = x + attention(block, norm(block + "attention_norm", x), bias);
      const Tensor h =
          torch::gelu(linear(block + "feed_forward.in", norm(block + "feed_forward_norm", x)), "tanh");
      x = x + linear(block + "feed_forward.out", h);
    }
    x = norm("norm", x);
    const Tensor pooled = c_.cls() ? x.select(1, 0) : x.mean(1);
    return linear("head.1", torch::relu(linear("head.0", pooled)));
  }

 private:
  const Tensor& p(const std::string& name) const { return parameters_.at(name); }
  Tensor linear(const std::string& name, const Tensor& x) const {
    return torch::matmul(x, p(name + ".weight").t()) + p(name + ".bias");
  }
  Tensor norm(const std::string& name, const Tensor& x) const {
    return torch::layer_norm(x, {c_.width}, p(name + ".weight"), p(name + ".bias"), 1e-6);
  }
  Tensor attention(const std::string& block, const Tensor& x, const Tensor& bias) const {
    const auto heads = [&](const char* which) {  // [B, H, n, P]
      const Tensor y = torch::matmul(x, p(block + "attention." + which + ".weight").t());
      return y.view({x.size(0), x.size(1), c_.heads, -1}).transpose(1, 2);
    };
    const Tensor q = heads("q"),
                 scale = torch::full({}, std::sqrt(static_cast<double>(q.size(3))), torch::kFloat);
    const Tensor a = torch::softmax(torch::matmul(q, heads("k").transpose(2, 3)) / scale + bias, -1);
    const Tensor y = torch::matmul(a, heads("v")).transpose(1, 2).flatten(2);
    return torch::matmul(y, p(block + "attention.o.weight").t());
  }

  EncoderConfig c_;
  std::map<std::string, Tensor> parameters_;
};

TEST(TransformerTest, WithPaddingKeptIsTheReleasedEncoder) {
  const Tensor ids =
      torch::tensor({{3, 9, 1, 0, 0, 0}, {0, 5, 0, 7, 2, 0}, {4, 4, 8, 1, 6, 2}}, torch::kLong);
  for (const char* pooling : {"cls", "mean"}) {
    EncoderConfig c = small_config();
    c.padding = "kept", c.pooling = pooling, c.max_length = 6, c.pad_id = 0;
    const Model& model = find_model("transformer");
    const auto options = model.options();
    const ConfigTree unfused = parse_assignment("attention=unfused");
    ConfigReader reader(unfused);
    options->visit(reader);
    const auto encoder = make_encoder(model, c, *options, 1);
    const int32_t lead = c.cls() ? 1 : 0;
    Batch batch;
    batch.rows = 3;
    batch.input.rows = lay_out({6 + lead, 6 + lead, 6 + lead}, true);
    const Tensor tokens = ids.to(torch::kInt);
    batch.input.tokens =
        (c.cls() ? torch::cat({torch::full({3, 1}, c.vocab_size, torch::kInt), tokens}, 1) : tokens)
            .flatten();
    const Tensor ours = encoder->forward(batch, {}), released = ReleasedEncoder(*encoder, c).logits(ids);
    EXPECT_TRUE(torch::allclose(ours, released, 1e-4, 1e-5)) << pooling << (ours - released).abs().max();
  }
}

TEST(TransformerTest, PaddingIsKeptByNoModelThatHasNoFormForIt) {
  EncoderConfig c = small_config();
  c.padding = "kept", c.pad_id = 0;
  const Model &fused = find_model("transformer"), &blocks = find_model("local");
  const auto refused = [&](const Model& model) {
    return error_text([&] { make_encoder(model, c, *model.options(), 0); });
  };
  EXPECT_TRUE(says(refused(fused), "transformer.attention=unfused"));
  EXPECT_TRUE(says(refused(blocks), "model.padding=left_out"));
  c.pad_id = {};  // data without padding: nothing to keep
  EXPECT_NO_THROW(make_encoder(blocks, c, *blocks.options(), 0));
}

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
