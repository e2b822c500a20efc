// Where the batches of training steps come from. Which examples a step sees is a pure function of (seed,
// step).
#pragma once
#include <vector>

#include "batch/batch.h"

namespace lra {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The micro-batches of a step, on the device that trains. `counter` is the step as a tensor there, int64
  // [1]: a source on the device reads nothing else, so that what it does can be captured once and replayed.
  virtual std::vector<Batch> batches(int64_t step, const torch::Tensor& counter) = 0;
  // Steps of equal shape differ only in what device memory holds: a captured step serves them all. Empty: the
  // step cannot be captured.
  virtual std::vector<int64_t> shape(int64_t step) = 0;
  virtual int64_t tokens(int64_t step) = 0;            // real ones, of all its micro-batches
  virtual void prepare(int64_t) {}                     // called before each step, outside what is captured
  virtual double waited_seconds() const { return 0; }  // for data, in all
  virtual std::string description() const = 0;         // for the log
};

// The same batches at every step: for benchmarks and tests.
class FixedSource : public BatchSource {
 public:
  explicit FixedSource(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  std::vector<Batch> batches(int64_t, const torch::Tensor&) override { return batches_; }
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
