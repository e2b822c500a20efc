// Training batches made on the device: the data set lives there, and a step's batch is gathered from the step
// counter alone. Nothing is copied or waited for, so a captured graph that contains gather() can be replayed
// for every step of the same capacity.
//
//   DeviceDataset on_device(data, device);
//   DeviceSource source(data, on_device, {.batch = 32, .micro_batches = 1, .seed = 0, .layout = {…}});
//   const int64_t T = source.capacity(step, 0, false);          // the host counts along, from lengths it has
//   const Batch batch = source.gather(state.step, 0, T, 0);
//
// Rows are those of Loader with the same options, packed. The buffer has one of a few sizes; what the rows
// leave of it is cut into tail rows: token 0, slots of the row after the batch's last.
#pragma once
#include "batch/buffer_sizes.h"

namespace lra {

// All examples of a split, uploaded once.
class DeviceDataset {
 public:
  struct Document {
    torch::Tensor tokens;   // uint8: the bytes of all tokens end to end
    int token_bytes = 0;    // 1 or 2 each
    torch::Tensor places;   // uint8, where padding was left out: the bytes of the tokens' places
    int place_bytes = 0;    // 1 or 2 each
    torch::Tensor offsets;  // int64 [N + 1], in tokens
  };

  DeviceDataset(const Dataset& data, const torch::Device& device);

  const Document& document(bool second) const { return second ? second_ : first_; }
  const torch::Tensor& labels() const { return labels_; }  // int64 [N]
  int64_t bytes() const;                                   // of device memory
  static int64_t bytes_of(const Dataset& data);            // the same, beforehand

 private:
  Document first_, second_;
  torch::Tensor labels_;
};

class DeviceSource {
 public:
  // `data` and `on_device` hold the same split and must outlive it.
  DeviceSource(const Dataset& data, const DeviceDataset& on_device, const LoaderOptions& options);

  // What the rows of a micro-batch fill, CLS included, and how large a buffer to take for them. Known to the
  // host without asking the device.
  int64_t positions(int64_t step, int64_t micro_batch, bool second) const;
  int64_t capacity(int64_t step, int64_t micro_batch, bool second) const;
  int64_t real_tokens(int64_t step, int64_t micro_batch) const;  // without CLS, both documents

  // The batch of step `step` (int64 [1] on the device), in buffers of capacity() positions; second_capacity
  // is not looked at where the task has one document. Batch::real_tokens stays 0: the host alone cannot know
  // it here.
  Batch gather(const torch::Tensor& step, int64_t micro_batch, int64_t capacity,
               int64_t second_capacity) const;

 private:
  int64_t first_row(int64_t micro_batch) const {
    return micro_batch * options_.batch / options_.micro_batches;
  }
  int64_t length(int64_t example, bool second) const;
  Sequences gather_document(const torch::Tensor& step, int64_t micro_batch, int64_t capacity, bool second,
                            const torch::Tensor& labels) const;

  const Dataset& data_;
  const DeviceDataset& on_device_;
  LoaderOptions options_;
  BufferSizes sizes_;
};

}  // namespace lra
