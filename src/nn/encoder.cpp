#include "nn/encoder.h"

#include "kernels/embed/embed.h"
#include "kernels/pool/pool.h"

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

std::string StandardBlock::name(const char* part, const Forward& f) const {
  return f.probe ? "blocks." + std::to_string(index_) + "." + part : std::string();
}

Residual StandardBlock::forward(const Residual& stream, const Forward& f) const {
  const auto [x, normed] = stream.normed(*mixer_norm_);
  return feed(x, mixer_->forward(normed, f), f);
}

Residual StandardBlock::forward_first(const Residual& stream, const Forward& f) const {
  const auto [x, normed] = stream.normed(*mixer_norm_);
  return feed(take_rows(x, f.first_positions()), mixer_->forward_first(normed, f), f.at_first_positions());
}

// What follows the mixer, position by position.
Residual StandardBlock::feed(const Tensor& x, const Tensor& mixed, const Forward& f) const {
  f.look(name(mixer_name_.c_str(), f), mixed);
  const Residual middle{x, mixed, {}, f.dropout(dropout_, block_site(index_, 1))};
  const auto [y, normed] = middle.normed(*ff_norm_);
  const Tensor fed = ff_->forward(normed, f);
  f.look(name("feed_forward", f), fed);
  return {y, fed, ff_->bias(), f.dropout(dropout_, block_site(index_, 3))};
}

Tensor StandardBlock::reference(const Tensor& x, const Forward& f) const {
  const auto dropped = [&](const Tensor& y, uint64_t place) {
    return dropout_reference(y, f.dropout(dropout_, block_site(index_, place)));
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
  const bool deep = config.two_inputs && config.pair_head == "concat";
  head_ = register_module("head", std::make_shared<MlpHead>(config.pair_features() * D, config.ff_width,
                                                            config.num_classes, deep));
}

const Tensor& Encoder::position_table() const {
  if (learned_positions_) return learned_positions_->weight;
  const Tensor& like = embedding_->weight;
  if (config_.positions == "sinusoidal" && (!sinusoidal_.defined() || sinusoidal_.device() != like.device() ||
                                            sinusoidal_.dtype() != like.dtype())) {
    const c10::InferenceMode normal(false);  // made in an evaluation, it also serves training
    sinusoidal_ =
        sinusoidal_positions(config_.positions_count(), config_.width).to(like.device(), like.scalar_type());
  }
  return sinusoidal_;
}

// The released code takes CLS for padding where the first token is.
Tensor Encoder::real_tokens(const Sequences& input, const Forward& f) const {
  const Tensor real = input.tokens != *config_.pad_id;
  if (!config_.cls()) return real;
  const Tensor first = f.first_positions();
  return real.index_copy(0, first, real.index_select(0, first + 1));
}

Tensor Encoder::encode(const Sequences& input, Forward f) const {
  TORCH_CHECK(input.rows.longest <= config_.positions_count(), "[encoder] a row of ", input.rows.longest,
              " positions, but the model was made for ", config_.positions_count());
  f.rows = input.rows;
  if (config_.keeps_padding()) f.valid = real_tokens(input, f);
  const Tensor x = embed({input.tokens, f.rows, embedding_->weight, cls_, position_table(),
                          f.dropout(config_.dropout, kEmbeddingSite), compute_type_});
  f.look("embedding", x);
  Residual stream{x};
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) stream = blocks_[i]->forward(stream, f);
  if (config_.pools_first()) {
    stream = blocks_.back()->forward_first(stream, f);
    f = f.at_first_positions();
  } else {
    stream = blocks_.back()->forward(stream, f);
  }
  return pool({stream.x, stream.branch, stream.bias, stream.dropout, norm_->weight, norm_->bias, f.rows,
               config_.pools_first()});
}

Tensor Encoder::forward(const Batch& batch, const Forward& f) const {
  Tensor pooled = encode(batch.input, f);
  if (config_.two_inputs) {
    Forward second = f;
    second.seed = ~f.seed;  // the second document draws other numbers
    const Tensor other = encode(batch.second, second);
    pooled = config_.pair_head == "concat" ? torch::cat({pooled, other}, 1) : pair_features(pooled, other);
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
