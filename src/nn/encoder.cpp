#include "nn/encoder.h"

namespace lra {

StandardBlock::StandardBlock(const EncoderConfig& config, int64_t index, const std::string& mixer_name,
                             std::shared_ptr<Mixer> mixer)
    : dropout_(config.dropout), index_(index), mixer_name_(mixer_name) {
  mixer_norm_ = register_module(mixer_name + "_norm", std::make_shared<LayerNorm>(config.width));
  mixer_ = register_module(mixer_name, std::move(mixer));
  ff_norm_ = register_module("feed_forward_norm", std::make_shared<LayerNorm>(config.width));
  ff_ = register_module("feed_forward", std::make_shared<FeedForward>(config.width, config.ff_width,
                                                                      config.dropout, block_site(index, 2)));
}

Tensor StandardBlock::forward(const Tensor& x, const Forward& f) const {
  const auto name = [&](const char* part) {
    return f.probe ? "blocks." + std::to_string(index_) + "." + part : std::string();
  };
  const Tensor mixed = mixer_->forward(mixer_norm_->forward(x), f);
  f.look(name(mixer_name_.c_str()), mixed);
  const Tensor middle = x + f.dropped(mixed, dropout_, block_site(index_, 1));
  const Tensor fed = ff_->forward(ff_norm_->forward(middle), f);
  f.look(name("feed_forward"), fed);
  return middle + f.dropped(fed, dropout_, block_site(index_, 3));
}

Tensor StandardBlock::reference(const Tensor& x, const Forward& f) const {
  const auto dropped = [&](const Tensor& y, uint64_t place) {
    return f.training ? dropout_reference(y, dropout_, block_site(index_, place), f.key) : y;
  };
  const Tensor middle = x + dropped(mixer_->reference(mixer_norm_->reference(x), f), 1);
  return middle + dropped(ff_->reference(ff_norm_->reference(middle), f), 3);
}

Encoder::Encoder(const EncoderConfig& config, const MakeBlock& make_block) : config_(config) {
  config.check();
  const int64_t D = config.width;
  embedding_ =
      register_module("embedding", std::make_shared<Embedding>(config.vocab_size, D, Init::normal(1)));
  if (config.cls()) cls_ = parameter("cls", {D}, Init::constant(0));
  if (config.positions == "learned") {
    learned_positions_ = register_module(
        "positions", std::make_shared<Embedding>(config.positions_count(), D, Init::normal(0.02)));
  }
  auto blocks = register_module("blocks", std::make_shared<Layer>());
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks_.push_back(blocks->register_module(std::to_string(i), make_block(config, i)));
  }
  norm_ = register_module("norm", std::make_shared<LayerNorm>(D));
  const int64_t features = config.two_inputs ? 4 * D : D;
  head_ = register_module("head", std::make_shared<MlpHead>(features, config.ff_width, config.num_classes));
}

Tensor Encoder::encode(const Sequences& input, Forward f) const {
  const int64_t B = input.tokens.size(0), D = config_.width;
  TORCH_CHECK(input.tokens.size(1) <= config_.max_length, "[encoder] a row of ", input.tokens.size(1),
              " tokens, but the model was made for ", config_.max_length);
  Tensor x = embedding_->forward(input.tokens).to(compute_type_);  // [B, L, D]
  if (config_.cls()) x = torch::cat({cls_.to(compute_type_).expand({B, 1, D}), x}, 1);
  const int64_t L = x.size(1);
  if (learned_positions_) {
    x = x + learned_positions_->weight.narrow(0, 0, L).to(compute_type_);
  } else if (config_.positions == "sinusoidal") {
    if (!sinusoidal_.defined() || sinusoidal_.device() != x.device() ||
        sinusoidal_.scalar_type() != compute_type_) {
      sinusoidal_ = sinusoidal_positions(config_.positions_count(), D).to(x.device(), compute_type_);
    }
    x = x + sinusoidal_.narrow(0, 0, L);
  }
  f.look("embedding", x);
  f.lengths = input.full ? Tensor() : config_.cls() ? input.lengths + 1 : input.lengths;
  x = f.dropped(x, config_.dropout, kEmbeddingSite);
  for (const auto& block : blocks_) x = block->forward(x, f);
  const auto type = embedding_->weight.scalar_type();
  if (config_.cls()) return norm_->forward(x.select(1, 0).to(type));  // [B, D]
  return pool_mean(norm_->forward(x).to(type), f.lengths);
}

Tensor Encoder::forward(const Batch& batch, const Forward& f) const {
  Tensor pooled = encode(batch.input, f);
  if (config_.two_inputs) {
    Forward second = f;
    second.key.seed = ~f.key.seed;  // the second document draws other numbers
    pooled = pair_features(pooled, encode(batch.second, second));
  }
  f.look("pooled", pooled);
  const Tensor logits = head_->forward(pooled);
  f.look("logits", logits);
  return logits;
}

int64_t Encoder::parameter_count() const {
  int64_t count = 0;
  for (const auto& p : parameters()) count += p.numel();
  return count;
}

}  // namespace lra
