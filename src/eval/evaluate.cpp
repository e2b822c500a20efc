#include "eval/evaluate.h"

#include "base/error.h"
#include "base/signals.h"
#include "batch/loader.h"

namespace lra {

Evaluation evaluate(const Encoder& model, const Dataset& data, const EvaluateOptions& options) {
  const torch::InferenceMode inference;
  Evaluation result;
  std::vector<int64_t> predicted(static_cast<size_t>(data.size()));
  if (options.keep_predictions) result.predictions.resize(static_cast<size_t>(data.size()));
  double loss_sum = 0;
  Forward forward;
  forward.copies = options.copies;
  for (const auto& indices : evaluation_batches(data, options.batch)) {
    if (interrupted()) throw Interrupted("evaluation interrupted");
    const Batch batch = collate(data, indices, model.layout()).to(options.device);
    const torch::Tensor logits = model.forward(batch, forward);  // [B, C]
    const torch::Tensor losses =
        torch::cross_entropy_loss(logits.to(torch::kDouble), batch.labels, {}, at::Reduction::Sum);
    loss_sum += losses.item<double>();
    const torch::Tensor best = logits.argmax(1).cpu();
    const torch::Tensor values =
        options.keep_predictions ? logits.to(torch::kCPU, torch::kFloat).contiguous() : torch::Tensor();
    for (size_t r = 0; r < indices.size(); ++r) {
      const auto index = static_cast<size_t>(indices[r]);
      predicted[index] = best.const_data_ptr<int64_t>()[r];
      if (options.keep_predictions) {
        const float* row = values.const_data_ptr<float>() + static_cast<int64_t>(r) * values.size(1);
        result.predictions[index] = {
            indices[r], data.label(indices[r]), predicted[index], {row, row + values.size(1)}};
      }
    }
    result.examples += static_cast<int64_t>(indices.size());
    if (options.progress) options.progress(result.examples);
  }
  if (options.task) {
    for (const auto& name : options.task->group_names()) result.groups.push_back({name, 0, 0});
  }
  for (int64_t i = 0; i < data.size(); ++i) {
    const bool right = predicted[static_cast<size_t>(i)] == data.label(i);
    result.correct += right ? 1 : 0;
    if (!result.groups.empty()) {
      GroupCount& group = result.groups.at(static_cast<size_t>(options.task->group_of(data, i)));
      ++group.examples;
      group.correct += right ? 1 : 0;
    }
  }
  result.loss = result.examples ? loss_sum / static_cast<double>(result.examples) : 0;
  return result;
}

}  // namespace lra
