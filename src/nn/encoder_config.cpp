#include "nn/encoder_config.h"

#include "base/error.h"

namespace lra {

void EncoderConfig::visit(Fields& f) {
  f.integer("layers", layers, 1, 1000, "blocks (N)");
  f.integer("width", width, 1, 1 << 16, "width of embeddings and residual stream (D)");
  f.integer("heads", heads, 1, 1024, "attention heads (H)");
  f.integer("qkv_width", qkv_width, 1, 1 << 16, "total width of queries, keys and values (H·P)");
  f.integer("ff_width", ff_width, 1, 1 << 18, "inner width of the feed-forward layers and of the head (F)");
  f.real("dropout", dropout, 0, 0.99, "dropout on embeddings and on each branch");
  f.real("attention_dropout", attention_dropout, 0, 0.99, "dropout on attention weights");
  f.choice("positions", positions, {"sinusoidal", "learned", "none"}, "position embedding");
  f.choice("pooling", pooling, {"cls", "mean", "first"},
           "a learned CLS token, the mean over the positions of a row, or its first token (the released "
           "Retrieval)");
  f.choice("padding", padding, {"left_out", "kept"},
           "kept, as in the released code: rows are filled up with padding, which passes through the layers "
           "and enters the mean; only models with such a form");
  f.choice("pair_head", pair_head, {"interaction", "concat"},
           "two documents: [a, b, a∘b, a−b] and two layers (the paper), or [a, b] and three (the released "
           "code)");
  f.flag("causal", causal,
         "no position sees a later one; only models with a causal form, not with CLS pooling");
}

void EncoderConfig::check() const {
  if (qkv_width % heads != 0) {
    fail("config", "model.qkv_width {} is not a multiple of model.heads {}. Change one of them.", qkv_width,
         heads);
  }
  if (causal && pools_first()) {
    fail("config",
         "model.causal with model.pooling {}: the first position would see nothing but itself. Set "
         "model.pooling=mean.",
         pooling);
  }
}

}  // namespace lra
