// What the registry knows of models, without tensors: for `lra models` and the documentation.
#pragma once
#include <string>
#include <vector>

#include "base/config.h"

namespace lra {

struct ModelCard {
  std::string name, title, paper, formula, cost, differences;
  bool causal = false;
  std::vector<FieldInfo> options;
};
std::vector<ModelCard> model_cards();

}  // namespace lra
