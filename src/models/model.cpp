#include "models/model.h"

#include "models/catalogue.h"

namespace lra {

Model& find_model(std::string_view name) { return Registry<Model>::instance().get(name, "model"); }

std::shared_ptr<Encoder> make_encoder(const Model& model, const EncoderConfig& config,
                                      const ModelOptions& options, uint64_t seed) {
  if (config.causal && !model.info().causal) {
    fail("config", "model.causal: {} has no causal form. 'lra models' marks those that have one.",
         model.name());
  }
  if (config.keeps_padding() && !model.info().keeps_padding) {
    fail("config", "model.padding kept: {} has no form with padding in its rows. Set model.padding=left_out.",
         model.name());
  }
  auto encoder = std::make_shared<Encoder>(
      config, [&](const EncoderConfig& c, int64_t index) { return model.block(c, options, index); });
  encoder->set_packed(model.info().packed);
  initialize(*encoder, seed);
  return encoder;
}

int64_t shell_parameters(const EncoderConfig& c) {
  const int64_t positions = c.positions == "learned" ? c.positions_count() * c.width : 0;
  const int64_t F = c.ff_width, half = F / 2, features = c.pair_features() * c.width;
  const bool deep = c.two_inputs && c.pair_head == "concat";
  const int64_t last = deep ? half : F, between = deep ? F * half + half : 0;
  const int64_t head = features * F + F + between + last * c.num_classes + c.num_classes;
  return c.vocab_size * c.width + (c.cls() ? c.width : 0) + positions + 2 * c.width + head;
}

std::vector<ModelCard> model_cards() {
  std::vector<ModelCard> cards;
  const auto& registry = Registry<Model>::instance();
  for (const auto& name : registry.names()) {
    const Model& model = registry.get(name, "model");
    const ModelInfo& i = model.info();
    auto options = model.options();
    cards.push_back({i.name, i.title, i.paper, i.formula, i.cost, i.differences, i.causal,
                     describe_fields([&](Fields& f) { options->visit(f); })});
  }
  return cards;
}

}  // namespace lra
