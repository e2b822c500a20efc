// How a data set reaches a training step: made on the host and copied; the same through buffers of fixed
// size, so that the step can be recorded; or gathered on the device, where the whole set lives.
#pragma once
#include <map>
#include <memory>

#include "batch/gather/device_source.h"
#include "batch/loader.h"
#include "batch/source.h"

namespace lra {

// Real tokens of a step, from the lengths alone.
int64_t step_tokens(const Dataset& data, const LoaderOptions& options, int64_t step);

// Batches made on the host while the last step runs, copied as they are: the CPU's source, and the eager one
// of a GPU.
class LoaderSource : public BatchSource {
 public:
  LoaderSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
               const torch::Device& device);
  std::vector<Batch> batches(int64_t step, const torch::Tensor& counter) override;
  std::vector<int64_t> shape(int64_t) override { return {}; }
  int64_t tokens(int64_t step) override;
  double waited_seconds() const override { return loader_.waited_seconds(); }
  std::string description() const override { return "batches made on the host"; }

 protected:
  const Dataset& data_;
  LoaderOptions options_;
  torch::Device device_;
  Loader loader_;
};

// For sets that are larger than the device memory granted: batches made on the host, brought to one of a few
// sizes and copied into buffers that the recorded step reads.
class StagedSource : public LoaderSource {
 public:
  StagedSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
               const torch::Device& device);
  void prepare(int64_t step) override;
  std::vector<Batch> batches(int64_t, const torch::Tensor&) override { return buffers_.at(shape_); }
  std::vector<int64_t> shape(int64_t) override { return shape_; }
  std::string description() const override { return "batches streamed from the host"; }

 private:
  std::vector<int64_t> shape_;  // of the step that was prepared
  std::map<std::vector<int64_t>, std::vector<Batch>> buffers_;
};

// Gathered on the device from the step counter alone.
class ResidentSource : public BatchSource {
 public:
  ResidentSource(const Dataset& data, const LoaderOptions& options, const torch::Device& device);
  std::vector<Batch> batches(int64_t step, const torch::Tensor& counter) override;
  std::vector<int64_t> shape(int64_t step) override;
  int64_t tokens(int64_t step) override { return step_tokens(data_, options_, step); }
  std::string description() const override;

 private:
  const Dataset& data_;
  LoaderOptions options_;
  DeviceDataset on_device_;
  DeviceSource source_;
};

// The source for a device: the fastest that `granted` bytes of device memory allow. Rows that are not packed
// or keep their padding are made on the host.
std::unique_ptr<BatchSource> make_source(const Dataset& data, const LoaderOptions& options,
                                         int64_t first_step, const torch::Device& device,
                                         int64_t granted = int64_t{8} << 30);

// Rows followed by what a buffer of `capacity` positions has left over: token 0, in rows that belong to no
// example.
struct Tail {
  int64_t rows, row_length, slot;
};
Sequences fill_up(const Sequences& packed, int64_t capacity, const Tail& tail);

}  // namespace lra
