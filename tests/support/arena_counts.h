// Parameter counts of the Long Range Arena's configurations, held against ours.
#pragma once
#include <gtest/gtest.h>

#include "models/model.h"

namespace lra {

// Sizes of one of the arena's configurations and what its code makes of them.
struct ArenaCount {
  const char* name;
  int64_t N, H, E, Q, F, V, C, L;
  const char *pooling, *positions;
  int64_t parameters;
};

inline int64_t parameter_count(const Model& model, const ArenaCount& a, const ModelOptions& options) {
  EncoderConfig c;
  c.layers = a.N, c.heads = a.H, c.width = a.E, c.qkv_width = a.Q, c.ff_width = a.F;
  c.vocab_size = a.V, c.num_classes = a.C, c.max_length = a.L;
  c.pooling = a.pooling, c.positions = a.positions;
  return Encoder(c, [&](const EncoderConfig& config, int64_t i) { return model.block(config, options, i); })
      .parameter_count();
}

}  // namespace lra
