// A model and a split → predictions → metrics.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "nn/encoder.h"
#include "tasks/task.h"

namespace lra {

struct Prediction {
  int64_t index = 0, label = 0, prediction = 0;
  std::vector<float> logits;
};

struct GroupCount {
  std::string name;
  int64_t examples = 0, correct = 0;
};

struct Evaluation {
  int64_t examples = 0, correct = 0;
  double loss = 0;                      // mean cross-entropy
  std::vector<Prediction> predictions;  // by index, where asked for
  std::vector<GroupCount> groups;       // where the task has any

  double accuracy() const {
    return examples ? static_cast<double>(correct) / static_cast<double>(examples) : 0;
  }
};

struct EvaluateOptions {
  int64_t batch = 32;
  torch::Device device = torch::kCPU;
  Tensor copies;  // the parameters in the type of the activations, where the caller keeps them (nn/layer.h)
  bool keep_predictions = false;
  const Task* task = nullptr;  // groups are counted where given
  std::function<void(int64_t done)> progress;
};

// Every example once; the order of batches depends on the data alone.
Evaluation evaluate(const Encoder& model, const Dataset& data, const EvaluateOptions& options);

}  // namespace lra
