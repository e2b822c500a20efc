// Where the batches of training steps come from. Which examples a step sees is a pure function of (seed,
// step).
#pragma once
#include <vector>

#include "batch/batch.h"

namespace lra {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual int64_t micro_batches() const = 0;  // that a step is split into
  virtual int64_t rows() const = 0;           // examples of a step, in all of them
  // Called before each step, outside what is captured.
  virtual void prepare(int64_t step) = 0;
  // Micro-batch m of the step that was prepared, on the device that trains. `counter` is the step as a tensor
  // there, int64 [1]: a source that can be captured reads nothing else that changes.
  virtual Batch batch(int64_t m, const torch::Tensor& counter) = 0;
  // Whether what `batch` does can be captured once and replayed for every micro-batch m of the same shape:
  // they differ only in what device memory holds.
  virtual bool capturable() const { return true; }
  virtual std::vector<int64_t> shape(int64_t m) = 0;
  virtual int64_t tokens(int64_t step) = 0;            // real ones, of all its micro-batches
  virtual double waited_seconds() const { return 0; }  // for data, in all
  virtual std::string description() const = 0;         // for the log
};

// The same batches at every step: for benchmarks and tests.
class FixedSource : public BatchSource {
 public:
  explicit FixedSource(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  int64_t micro_batches() const override { return static_cast<int64_t>(batches_.size()); }
  int64_t rows() const override {
    int64_t n = 0;
    for (const auto& batch : batches_) n += batch.rows;
    return n;
  }
  void prepare(int64_t) override {}
  Batch batch(int64_t m, const torch::Tensor&) override { return batches_.at(static_cast<size_t>(m)); }
  std::vector<int64_t> shape(int64_t) override { return {0}; }
  int64_t tokens(int64_t) override {
    int64_t n = 0;
    for (const auto& batch : batches_) n += batch.real_tokens;
    return n;
  }
  std::string description() const override { return "fixed batches"; }

 private:
  std::vector<Batch> batches_;
};

}  // namespace lra
