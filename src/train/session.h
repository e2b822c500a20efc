// What training and evaluating a run have in common: the resolved device and type, the data folder and the
// model.
#pragma once
#include <memory>

#include "base/torch_compat.h"
#include "data/dataset.h"
#include "nn/encoder.h"
#include "train/run_config.h"

namespace lra {

struct Session {
  Session(const RunConfig& configuration, const fs::path& data);
  // A split with every token, label and length checked against what the model was made for.
  Dataset open(std::string_view split) const;

  RunConfig config;  // device and dtype as resolved, vocabulary and classes as in the data
  torch::Device device;
  DataFolder folder;
  std::shared_ptr<Encoder> model;  // initialised from the seed, on the CPU
};

}  // namespace lra
