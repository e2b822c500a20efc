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
  f.choice("pooling", pooling, {"cls", "mean"}, "a learned CLS token, or the mean over valid positions");
  f.flag("causal", causal,
         "no position sees a later one; only models with a causal form, not with CLS pooling");
}

void EncoderConfig::check() const {
  if (qkv_width % heads != 0) {
    fail("config", "model.qkv_width {} is not a multiple of model.heads {}. Change one of them.", qkv_width,
         heads);
  }
  if (causal && cls()) {
    fail("config",
         "model.causal with model.pooling cls: the CLS token stands first and would see nothing but itself. "
         "Set "
         "model.pooling=mean.");
  }
}

}  // namespace lra
