// The shell every model lives in:
//
//   x = dropout(embedding[tokens] + positions)          a learned CLS vector first, where pooling is `cls`
//   x = block_i(x), i = 1 … N
//   pooled = norm(x)[:, 0]  or the mean over valid positions
//   logits = head(pooled)                                two documents: head([a, b, a∘b, a−b]), shared
//   weights
//
// As in the Long Range Arena's code (no √D scaling of embeddings, pre-norm blocks, a final norm), with two
// differences: pooling and attention never see padding, and CLS is always a valid position (the released code
// copies the mask of the first token). `padding: kept` has it as there: rows are filled up with padding, and
// models that mask see by Forward::valid what it is.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "batch/batch.h"
#include "nn/encoder_config.h"
#include "nn/layers.h"

namespace lra {

// Dropout sites: one number for each place that draws (kernels/dropout/bits.h).
inline constexpr uint64_t kEmbeddingSite = 1;
inline uint64_t block_site(int64_t block, uint64_t place) {
  return 16 * static_cast<uint64_t>(block + 1) + place;
}

// What a block does between positions: [T, D] → [T, D], within the rows of `f.rows`.
class Mixer : public Layer {
 public:
  virtual Tensor forward(const Tensor& x, const Forward& f) const = 0;
  // The first position of each row alone, [B, D]: all that is read of the last block where pooling is `cls`.
  // A mixer that can save work there does so.
  virtual Tensor forward_first(const Tensor& x, const Forward& f) const {
    return take_rows(forward(x, f), f.first_positions());
  }
  // The same from the definition, by brute force over the same parameters, in the type of x: what tests hold
  // `forward` against.
  virtual Tensor reference(const Tensor& x, const Forward& f) const = 0;
};

// One layer. What it returns may still hold a branch to add: see Residual.
class Block : public Layer {
 public:
  virtual Residual forward(const Residual& stream, const Forward& f) const = 0;
  virtual Residual forward_first(const Residual& stream, const Forward& f) const {  // as in Mixer
    return {take_rows(forward(stream, f).sum(), f.first_positions())};
  }
  virtual Tensor reference(const Tensor& x, const Forward& f) const = 0;
};

// x ← x + dropout(mixer(norm(x)));  x ← x + dropout(feed_forward(norm(x)))
class StandardBlock : public Block {
 public:
  StandardBlock(const EncoderConfig& config, int64_t index, const std::string& mixer_name,
                std::shared_ptr<Mixer> mixer);
  Residual forward(const Residual& stream, const Forward& f) const override;
  Residual forward_first(const Residual& stream, const Forward& f) const override;
  Tensor reference(const Tensor& x, const Forward& f) const override;

 private:
  Residual feed(const Tensor& x, const Tensor& mixed, const Forward& f) const;
  std::string name(const char* part, const Forward& f) const;

  std::shared_ptr<LayerNorm> mixer_norm_, ff_norm_;
  std::shared_ptr<Mixer> mixer_;
  std::shared_ptr<FeedForward> ff_;
  double dropout_;
  int64_t index_;
  std::string mixer_name_;
};

class Encoder : public Layer {
 public:
  using MakeBlock = std::function<std::shared_ptr<Block>(const EncoderConfig&, int64_t index)>;
  Encoder(const EncoderConfig& config, const MakeBlock& make_block);

  // logits [B, C] in the parameters' type; `f.rows` is set from the batch.
  Tensor forward(const Batch& batch, const Forward& f) const;

  const EncoderConfig& config() const { return config_; }
  void set_compute_type(torch::Dtype type) { compute_type_ = type; }  // bf16 activations over fp32 masters
  torch::Dtype compute_type() const { return compute_type_; }
  int64_t parameter_count() const;
  // How batches for this model are laid out.
  LayoutOptions layout() const { return layout(packed_); }
  LayoutOptions layout(bool packed) const {
    return {packed, config_.cls(), config_.vocab_size, config_.keeps_padding() ? config_.max_length : 0,
            config_.pad_id.value_or(0)};
  }
  void set_packed(bool packed) { packed_ = packed; }

 private:
  const Tensor& position_table() const;  // [positions, D], or undefined
  Tensor real_tokens(const Sequences& input, const Forward& f) const;
  Tensor encode(const Sequences& input, Forward f) const;  // [B, D]

  EncoderConfig config_;
  torch::Dtype compute_type_ = torch::kFloat;
  bool packed_ = true;
  std::shared_ptr<Embedding> embedding_, learned_positions_;
  Tensor cls_;
  mutable Tensor sinusoidal_;  // [positions, D], in the type and on the device of the parameters
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<MlpHead> head_;
};

}  // namespace lra
