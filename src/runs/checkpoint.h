// A checkpoint: a folder with model.safetensors, optimizer.safetensors and state.json, replaced as a whole. A
// process killed at any moment leaves the old one or the new one, never a mixture. state.json has the hashes
// of the other two, so that no flipped byte is taken for a weight.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "data/safetensors.h"

namespace lra {

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

void save_checkpoint(const fs::path& run, std::string_view name, const std::vector<NamedTensor>& model,
                     const std::vector<NamedTensor>& optimizer, const Json& state);

struct Checkpoint {
  fs::path path;
  SafetensorsFile model;
  Json state;

  SafetensorsFile optimizer() const;
};

bool has_checkpoint(const fs::path& run, std::string_view name);
Checkpoint open_checkpoint(const fs::path& run, std::string_view name);
// What to do about the damaged checkpoint `name`: which other one is whole.
std::string checkpoint_advice(const fs::path& run, std::string_view name);

}  // namespace lra
