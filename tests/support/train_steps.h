// Some steps of training, to be compared between devices and engines.
#pragma once
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/models.h"
#include "train/step_engine.h"

namespace lra {

struct RunOptions {
  torch::Device device;
  torch::Dtype type, compute;
  EngineKind kind;
  std::vector<int32_t> lengths = {20, 7, 13, 1, 9, 9};
  double attention_dropout = 0;  // on CUDA drawn by the library's kernel: other numbers than on the CPU
  bool packed = true;
};

// Losses of training steps, and the parameters after them.
inline std::pair<std::vector<double>, Tensor> train_steps(const RunOptions& o, int steps) {
  EncoderConfig c = small_config();
  c.attention_dropout = o.attention_dropout;
  auto encoder = small_encoder(find_model("transformer"), c, o.type);
  encoder->set_compute_type(o.compute);
  TrainState state = make_train_state(*encoder, o.device, o.type, o.compute);
  auto engine = make_engine(o.kind, *encoder, state, {}, {"constant", 1e-3, 10, 100}, 4);
  FixedSource source({random_batch(o.lengths, encoder->layout(o.packed)).to(o.device)});
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    state.sums.zero_();
    engine->step(source);
    losses.push_back(state.sums[0].item<double>() / static_cast<double>(o.lengths.size()));
  }
  return {losses, state.flat.parameters.cpu()};
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "step " << i;
}

}  // namespace lra
