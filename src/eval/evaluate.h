// A model and a split → predictions → metrics.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/cuda_graph.h"
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
  bool capturable = true;  // the model's forward pass can be recorded as a CUDA graph
  bool keep_predictions = false;
  const Task* task = nullptr;  // groups are counted where given
  std::function<void(int64_t done)> progress;
};

// Every example once; the order of batches depends on the data alone.
//
// Made once and run again and again (validation in training), it keeps the batches on a GPU, and from the
// second run on the forward pass of each is a recorded graph: nothing is waited for until all logits are
// there.
class Evaluator {
 public:
  // `model` and `data` must outlive it.
  Evaluator(const Encoder& model, const Dataset& data, EvaluateOptions options);
  Evaluation run();

 private:
  struct Part {
    std::vector<int64_t> indices;
    int64_t first;  // row of its first logits
    Batch batch;    // on the device, where batches are kept
    std::unique_ptr<CudaGraph> graph;
  };
  void forward(Part& part);
  Evaluation count(const Tensor& logits) const;

  const Encoder& model_;
  const Dataset& data_;
  EvaluateOptions options_;
  std::vector<Part> parts_;
  bool kept_ = false;  // batches stay on the device
  int64_t runs_ = 0;
  Tensor logits_;  // [N, C], in the order of the batches
};

inline Evaluation evaluate(const Encoder& model, const Dataset& data, EvaluateOptions options) {
  return Evaluator(model, data, std::move(options)).run();
}

}  // namespace lra
