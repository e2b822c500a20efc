#include "eval/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/signals.h"
#include "batch/loader.h"

namespace lra {
namespace {

constexpr int64_t kKeptBytes = int64_t{2} << 30;  // of device memory, at most, for batches that are kept
constexpr int64_t kBytesPerPosition = 12;         // token and slot

}  // namespace

Evaluator::Evaluator(const Encoder& model, const Dataset& data, EvaluateOptions options)
    : model_(model), data_(data), options_(std::move(options)) {
  int64_t first = 0, positions = 0;
  for (auto& indices : evaluation_batches(data, options_.batch)) {
    const auto rows = static_cast<int64_t>(indices.size());
    for (const int64_t i : indices) {
      positions += data.length(i) + (data.has_second() ? data.tokens2(i).size() : 0) + 2;
    }
    parts_.push_back({std::move(indices), first, {}, {}});
    first += rows;
  }
  // Longest first: graphs share one pool of memory, which can be used again in smaller pieces only.
  std::reverse(parts_.begin(), parts_.end());
  kept_ = options_.device.is_cuda() && options_.capturable && kBytesPerPosition * positions < kKeptBytes;
}

void Evaluator::forward(Part& part) {
  Forward forward;
  forward.copies = options_.copies;
  const auto work = [&](const Batch& batch) {
    const Tensor logits = model_.forward(batch, forward);  // [B, C]
    if (!logits_.defined()) logits_ = torch::empty({data_.size(), logits.size(1)}, logits.options());
    logits_.narrow(0, part.first, batch.rows).copy_(logits);
  };
  if (!kept_) return work(collate(data_, part.indices, model_.layout()).to(options_.device));
  if (!part.batch.labels.defined())
    part.batch = collate(data_, part.indices, model_.layout()).to(options_.device);
  if (runs_ == 0) return work(part.batch);
  if (!part.graph) {
    part.graph = make_cuda_graph();
    part.graph->capture([&] { work(part.batch); });
  }
  part.graph->replay();
}

Evaluation Evaluator::run() {
  const torch::InferenceMode inference;
  int64_t done = 0;
  for (auto& part : parts_) {
    if (interrupted()) throw Interrupted("evaluation interrupted");
    forward(part);
    done += static_cast<int64_t>(part.indices.size());
    if (options_.progress) options_.progress(done);
  }
  ++runs_;
  return count(logits_.cpu());
}

Evaluation Evaluator::count(const Tensor& logits) const {
  Evaluation result;
  result.examples = data_.size();
  if (options_.keep_predictions) result.predictions.resize(static_cast<size_t>(data_.size()));
  if (options_.task) {
    for (const auto& name : options_.task->group_names()) result.groups.push_back({name, 0, 0});
  }
  const Tensor best = logits.argmax(1), log_probabilities = torch::log_softmax(logits.to(torch::kDouble), 1);
  const Tensor values = logits.to(torch::kFloat).contiguous();
  const auto log_probability = log_probabilities.accessor<double, 2>();
  double loss = 0;
  for (const auto& part : parts_) {
    int64_t row = part.first;
    for (const int64_t index : part.indices) {
      const int64_t label = data_.label(index), predicted = best.const_data_ptr<int64_t>()[row];
      loss -= log_probability[row][label];
      result.correct += predicted == label ? 1 : 0;
      if (!result.groups.empty()) {
        GroupCount& group = result.groups.at(static_cast<size_t>(options_.task->group_of(data_, index)));
        ++group.examples;
        group.correct += predicted == label ? 1 : 0;
      }
      if (options_.keep_predictions) {
        const float* numbers = values.const_data_ptr<float>() + row * values.size(1);
        result.predictions[static_cast<size_t>(index)] = {
            index, label, predicted, {numbers, numbers + values.size(1)}};
      }
      ++row;
    }
  }
  result.loss = loss / static_cast<double>(result.examples);
  return result;
}

}  // namespace lra
