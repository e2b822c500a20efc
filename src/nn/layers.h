// The shared layers. B batch, L length, D width, H heads, P head width, F feed-forward width, V vocabulary, C
// classes.
#pragma once
#include "nn/layer.h"

namespace lra {

// y = x Wᵀ (+ b)
class Linear : public Layer {
 public:
  struct Options {
    bool bias = true;
    Init weight_init, bias_init;
  };
  Linear(int64_t in, int64_t out, const Options& options);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
};

// [x W₁ᵀ, x W₂ᵀ, …] side by side in the last dimension. One matrix product forward, one for dx and one for
// all dW where the weights are neighbours in memory, as the parameters of one layer are in a flat buffer.
Tensor stacked_linear(const Tensor& x, const std::vector<Tensor>& weights);

// y = (x − mean) / √(var + 1e-6) · w + b over the last dimension, statistics in fp32
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(int64_t width);
  Tensor forward(const Tensor& x) const;
  Tensor reference(const Tensor& x) const;  // from the definition
  Tensor weight, bias;
};

// rows of a table, N(0, 1)
class Embedding : public Layer {
 public:
  Embedding(int64_t vocabulary, int64_t width, Init init);
  Tensor forward(const Tensor& tokens) const;  // int [B, L] → [B, L, D]
  Tensor weight;
};

// PE[t, 2i] = sin(t · 10000^(−2i/D)), PE[t, 2i+1] = cos(the same); interleaved and fixed
Tensor sinusoidal_positions(int64_t length, int64_t width);

// W₂ dropout(gelu(W₁ x + b₁)) + b₂, gelu by its tanh approximation; `site` is that of the inner dropout
class FeedForward : public Layer {
 public:
  FeedForward(int64_t width, int64_t inner, double dropout, uint64_t site);
  Tensor forward(const Tensor& x, const Forward& f) const;
  Tensor reference(const Tensor& x, const Forward& f) const;  // from the definition

 private:
  std::shared_ptr<Linear> in_, out_;
  double dropout_;
  uint64_t site_;
};

// [B, L, D] → [B, D]: the mean over valid positions
Tensor pool_mean(const Tensor& x, const Tensor& lengths);

// The two-layer classifier: W_b relu(W_a x + b_a) + b_b
class MlpHead : public Layer {
 public:
  MlpHead(int64_t in, int64_t hidden, int64_t classes);
  Tensor forward(const Tensor& x) const;

 private:
  std::shared_ptr<Linear> hidden_, out_;
};

// Features of a pair for the two-tower head (LRA eq. 1): [x₁, x₂, x₁∘x₂, x₁−x₂]
Tensor pair_features(const Tensor& first, const Tensor& second);

}  // namespace lra
