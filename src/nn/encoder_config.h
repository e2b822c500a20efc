// Plain numbers, so that who only configures a model needs no tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/config.h"

namespace lra {

// Sizes every model shares: the section `model` of a configuration.
struct EncoderConfig {
  int64_t layers = 4, width = 256, heads = 4, qkv_width = 256, ff_width = 1024;
  double dropout = 0.1, attention_dropout = 0.1;
  std::string positions = "sinusoidal", pooling = "cls", padding = "left_out", pair_head = "interaction";
  bool causal = false;
  // Not configured: what the data says.
  int64_t vocab_size = 0, num_classes = 0, max_length = 0;
  bool two_inputs = false;
  std::optional<int64_t> pad_id = {};

  void visit(Fields& f);
  void check() const;                                     // what no single field can say: heads divide widths
  bool cls() const { return pooling == "cls"; }           // there is a CLS token
  bool pools_first() const { return pooling != "mean"; }  // the first position of a row is all that is read
  bool keeps_padding() const { return padding == "kept" && pad_id; }
  int64_t pair_features() const { return two_inputs ? (pair_head == "concat" ? 2 : 4) : 1; }
  int64_t positions_count() const { return max_length + (cls() ? 1 : 0); }
  // What a block cannot do without on its way back, of each position, unless products are made again: two
  // sums, two norms, q, k, v, the mixed values, and the inner width before and after the activation.
  int64_t block_activations() const { return 4 * width + 4 * qkv_width + 2 * ff_width; }
  // Bytes that a training step over so many positions takes at least: those of every block, and the gradients
  // of one block at a time.
  int64_t activation_bytes(int64_t positions_of_all_rows, int64_t bytes_each) const {
    return positions_of_all_rows * bytes_each * (layers + 1) * block_activations();
  }
  // Bytes of unfused attention's weights [rows, H, L, L], on top of these: scores and weights of every layer,
  // and the gradients of one on the way back.
  int64_t attention_weight_bytes(int64_t rows, int64_t length, int64_t bytes_each, bool train) const {
    return rows * heads * length * length * bytes_each * (train ? 2 * layers + 3 : 3);
  }
};

}  // namespace lra
