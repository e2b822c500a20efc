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
// Positions of the largest micro-batch of the first `steps` steps, both documents.
int64_t largest_micro_batch(const Dataset& data, const LoaderOptions& options, int64_t steps);

// Batches made on the host while the last step runs, copied as they are: the CPU's source, and the eager one
// of a GPU.
class LoaderSource : public BatchSource {
 public:
  LoaderSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
               const torch::Device& device);
  int64_t micro_batches() const override { return options_.micro_batches; }
  int64_t rows() const override { return options_.batch; }
  void prepare(int64_t step) override;
  Batch batch(int64_t m, const torch::Tensor& counter) override;
  bool capturable() const override { return false; }
  std::vector<int64_t> shape(int64_t) override { return {}; }
  int64_t tokens(int64_t step) override;
  double waited_seconds() const override { return loader_.waited_seconds(); }
  std::string description() const override { return "batches made on the host"; }

 protected:
  const Dataset& data_;
  LoaderOptions options_;
  torch::Device device_;
  Loader loader_;
  std::vector<Batch> made_;  // of the step that was prepared, on the host
};

// For sets that are larger than the device memory granted, and for rows on a grid: batches made on the host,
// brought to one of a few sizes and copied into buffers that the recorded step reads.
class StagedSource : public LoaderSource {
 public:
  StagedSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
               const torch::Device& device);
  void prepare(int64_t step) override;
  Batch batch(int64_t m, const torch::Tensor&) override { return buffers_.at(key(m)); }
  bool capturable() const override { return true; }
  std::vector<int64_t> shape(int64_t m) override { return shapes_.at(static_cast<size_t>(m)); }
  std::string description() const override { return "batches streamed from the host"; }

 private:
  std::vector<int64_t> bring_to_size(Sequences& s, bool second) const;
  std::vector<int64_t> key(int64_t m) const;  // of the buffer that micro-batch m is in

  BufferSizes sizes_;
  std::vector<std::vector<int64_t>> shapes_;  // of the micro-batches that were prepared
  std::map<std::vector<int64_t>, Batch> buffers_;
};

// Gathered on the device from the step counter alone.
class ResidentSource : public BatchSource {
 public:
  ResidentSource(const Dataset& data, const LoaderOptions& options, const torch::Device& device);
  int64_t micro_batches() const override { return options_.micro_batches; }
  int64_t rows() const override { return options_.batch; }
  void prepare(int64_t step) override { step_ = step; }
  Batch batch(int64_t m, const torch::Tensor& counter) override;
  std::vector<int64_t> shape(int64_t m) override;
  int64_t tokens(int64_t step) override { return step_tokens(data_, options_, step); }
  std::string description() const override;

 private:
  const Dataset& data_;
  LoaderOptions options_;
  DeviceDataset on_device_;
  DeviceSource source_;
  int64_t step_ = 0;  // that was prepared
};

// The source for a device: the fastest that `granted` bytes of device memory allow. Rows on a grid and rows
// that keep their padding are made on the host.
std::unique_ptr<BatchSource> make_source(const Dataset& data, const LoaderOptions& options,
                                         int64_t first_step, const torch::Device& device,
                                         int64_t granted = int64_t{8} << 30);

// Rows followed by what a buffer of `capacity` positions has left over: token 0 at `slot`, in tail rows.
Sequences fill_up(const Sequences& packed, int64_t capacity, const Tail& tail, int64_t slot);

}  // namespace lra
