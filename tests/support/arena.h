// Sizes of the Long Range Arena's configurations, to count parameters by.
#pragma once
#include "base/config.h"
#include "models/model.h"

namespace lra {

struct ArenaSizes {
  int64_t N, H, E, Q, F, V, C, L;
  const char *pooling, *positions;
  bool two_inputs = false;
};

inline constexpr ArenaSizes kListOpsCode{4, 8, 512, 512, 1024, 17, 10, 2000, "cls", "sinusoidal"};
inline constexpr ArenaSizes kListOpsPaper{6, 8, 512, 512, 2048, 17, 10, 2000, "cls", "sinusoidal"};
inline constexpr ArenaSizes kTextCode1K{4, 4, 256, 256, 1024, 257, 2, 1000, "cls", "sinusoidal"};
inline constexpr ArenaSizes kTextCode4K{4, 4, 256, 256, 1024, 257, 2, 4000, "cls", "sinusoidal"};
inline constexpr ArenaSizes kTextPaper4K{6, 8, 512, 512, 2048, 257, 2, 4000, "cls", "sinusoidal"};
inline constexpr ArenaSizes kImageCode{1, 8, 128, 64, 128, 256, 10, 1024, "cls", "learned"};

inline ArenaSizes pathfinder_sizes(int64_t N, int64_t H, int64_t E, int64_t Q, int64_t F) {
  return {N, H, E, Q, F, 256, 2, 1024, "mean", "sinusoidal"};
}

// Parameters of the model as it is built, under options like {"k=16"}.
inline int64_t arena_parameters(const char* name, const ArenaSizes& s,
                                const std::vector<std::string>& set = {}) {
  EncoderConfig c;
  c.layers = s.N, c.heads = s.H, c.width = s.E, c.qkv_width = s.Q, c.ff_width = s.F;
  c.vocab_size = s.V, c.num_classes = s.C, c.max_length = s.L;
  c.pooling = s.pooling, c.positions = s.positions, c.two_inputs = s.two_inputs;
  const Model& model = find_model(name);
  const auto options = model.options();
  ConfigTree tree;
  for (const auto& assignment : set) overlay(tree, parse_assignment(assignment));
  ConfigReader reader(tree);
  options->visit(reader);
  reader.finish();
  const Encoder encoder(
      c, [&](const EncoderConfig& config, int64_t i) { return model.block(config, *options, i); });
  return encoder.parameter_count();
}

}  // namespace lra
