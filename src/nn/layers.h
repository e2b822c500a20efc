// The shared layers. B batch, L length, D width, H heads, P head width, F feed-forward width, V vocabulary, C
// classes.
#pragma once
#include "nn/layer.h"

namespace lra {

// y = x Wᵀ (+ b). The bias is added here, or left to the kernel that follows.
class Linear : public Layer {
 public:
  struct Options {
    bool bias = true;
    Init weight_init, bias_init;
  };
  Linear(int64_t in, int64_t out, const Options& options);
  Tensor product(const Tensor& x, const Forward& f) const;  // without the bias
  Tensor forward(const Tensor& x, const Forward& f) const;
  Tensor reference(const Tensor& x) const;
  Tensor weight, bias;
};

// The parameters of (x − mean) / √(var + 1e-6) · weight + bias over the last dimension; the kernels add_norm
// and pool compute it
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(int64_t width);
  Tensor reference(const Tensor& x) const;  // from the definition
  Tensor weight, bias;
};

// 1 where a position belongs to a row, [B, T]: products with it sum over rows, those with its transpose
// spread to their positions.
Tensor row_mask(const Rows& rows, torch::Dtype type);

// Rows of x: [T, D] → [n, D]; positions int64 [n], each at most once.
Tensor take_rows(const Tensor& x, const Tensor& positions);

// The residual stream between two blocks: x + dropout(branch + bias), not added yet, because the norm that
// comes next does it in the same pass.
struct Residual {
  Tensor x;            // [T, D]
  Tensor branch = {};  // [T, D]; undefined: nothing to add
  Tensor bias = {};    // [D]
  Dropout dropout = {};

  struct Normed {
    Tensor sum, normed;  // the stream itself and its norm
  };
  Normed normed(const LayerNorm& norm) const;
  Tensor sum() const;
};

// The rows of a table; the kernel `embed` reads them
class Embedding : public Layer {
 public:
  Embedding(int64_t vocabulary, int64_t width, Init init);
  Tensor weight;
};

// PE[t, 2i] = sin(t · 10000^(−2i/D)), PE[t, 2i+1] = cos(the same); interleaved and fixed
Tensor sinusoidal_positions(int64_t length, int64_t width);

// W₂ dropout(gelu(W₁ x + b₁)) + b₂, gelu by its tanh approximation; `site` is that of the inner dropout
class FeedForward : public Layer {
 public:
  FeedForward(int64_t width, int64_t inner, double dropout, uint64_t site);
  Tensor forward(const Tensor& x, const Forward& f) const;    // without b₂
  const Tensor& bias() const { return out_->bias; }           // b₂
  Tensor reference(const Tensor& x, const Forward& f) const;  // from the definition, b₂ included

 private:
  std::shared_ptr<Linear> in_, out_;
  double dropout_;
  uint64_t site_;
};

// The two-layer classifier: W_b relu(W_a x + b_a) + b_b. A deep one has a layer of half the width between.
class MlpHead : public Layer {
 public:
  MlpHead(int64_t in, int64_t hidden, int64_t classes, bool deep = false);
  Tensor forward(const Tensor& x) const;  // [B, in] → [B, C]

 private:
  std::vector<std::shared_ptr<Linear>> hidden_;
  std::shared_ptr<Linear> out_;
};

// Features of a pair for the two-tower head (LRA eq. 1): [x₁, x₂, x₁∘x₂, x₁−x₂]
Tensor pair_features(const Tensor& first, const Tensor& second);

}  // namespace lra
