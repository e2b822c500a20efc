// What a block's outputs depend on, found by changing its inputs.
#pragma once
#include "support/models.h"

namespace lra {

// The model's options with some set, as YAML: "{block: 5}".
inline std::unique_ptr<ModelOptions> options_of(const Model& model, const std::string& yaml) {
  auto options = model.options();
  const ConfigTree tree = parse_yaml(yaml, "test");
  ConfigReader reader(tree);
  options->visit(reader);
  return options;
}

// bool [n, n]: output i moves with input j, in a row of n positions; block `index`, outside training. The
// norm before a mixer does not see what is added to all of a position, so one number of it is changed.
inline Tensor seen_by(const Model& model, EncoderConfig config, const std::string& yaml, int64_t n,
                      int64_t index = 0) {
  config.max_length = std::max(config.max_length, n);
  const auto block = model.block(config, *options_of(model, yaml), index);
  initialize(*block, 3);
  block->to(torch::kDouble);
  Forward f;
  f.rows = lay_out(std::vector<int32_t>(static_cast<size_t>(n + 1), static_cast<int32_t>(n)), true);
  torch::manual_seed(1);
  Tensor x = torch::randn({n, config.width}, torch::kDouble).repeat({n + 1, 1, 1});
  for (int64_t j = 0; j < n; ++j) x[j][j][0] += 1;  // row j has position j changed, the last none
  const torch::NoGradGuard no_grad;
  const Tensor y = block->forward({x.view({(n + 1) * n, -1})}, f).sum().view(x.sizes());
  return ((y.narrow(0, 0, n) - y[n]).abs().amax(2) > 1e-14).t().contiguous();
}

}  // namespace lra
