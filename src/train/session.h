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

// What a run takes of its device's memory, by estimate: parameters, gradients, moments, the copies in the
// type of the activations and of what is written to a checkpoint; and a step's activations, at least.
int64_t state_bytes(const RunConfig& config, int64_t parameters);
int64_t activation_bytes(const RunConfig& config, int64_t positions);
// The weights of attention, where the model's options ask to keep them.
int64_t attention_bytes(const RunConfig& config, int64_t rows, int64_t longest);
int64_t micro_batch_rows(const RunConfig& config);  // of the largest; `two_inputs` as in the data

}  // namespace lra
