#include "batch/gather/device_source.h"

#include "batch/gather/gather_arguments.h"

namespace lra {

CudaLauncher<GatherArguments> gather_cuda = nullptr;

namespace {

using torch::Tensor;

Tensor uploaded(const void* numbers, int64_t size, torch::Dtype type, const torch::Device& device) {
  const Tensor host =
      torch::from_blob(const_cast<void*>(numbers), {size}, torch::TensorOptions().dtype(type));
  return host.to(host.options().device(device), /*non_blocking=*/false, /*copy=*/true);
}

DeviceDataset::Document upload(const Dataset& data, bool second, const torch::Device& device) {
  const auto tokens_of = [&](int64_t i) { return second ? data.tokens2(i) : data.tokens(i); };
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < data.size(); ++i) offsets.push_back(offsets.back() + tokens_of(i).size());
  // Sequences lie end to end (data/dataset.h): the first example's tokens are where all begin.
  const auto upload_all = [&](const Tokens& first) {
    return uploaded(first.bytes().data(), offsets.back() * first.width(), torch::kByte, device);
  };
  DeviceDataset::Document document;
  document.token_bytes = tokens_of(0).width();
  document.tokens = upload_all(tokens_of(0));
  if (data.has_places() && !second) {
    for (int64_t i = 0; i < data.size(); ++i) data.check_places(i);
    document.place_bytes = data.places(0).width();
    document.places = upload_all(data.places(0));
  }
  document.offsets = uploaded(offsets.data(), static_cast<int64_t>(offsets.size()), torch::kLong, device);
  return document;
}

}  // namespace

DeviceDataset::DeviceDataset(const Dataset& data, const torch::Device& device) {
  TORCH_CHECK(data.size() > 0, "[gather] ", data.path().string(), " holds no examples");
  first_ = upload(data, false, device);
  if (data.has_second()) second_ = upload(data, true, device);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < data.size(); ++i) labels.push_back(data.label(i));
  labels_ = uploaded(labels.data(), data.size(), torch::kLong, device);
}

int64_t DeviceDataset::bytes() const {
  int64_t sum = 0;
  for (const Tensor& t :
       {first_.tokens, first_.places, first_.offsets, second_.tokens, second_.offsets, labels_}) {
    if (t.defined()) sum += static_cast<int64_t>(t.nbytes());
  }
  return sum;
}

int64_t DeviceDataset::bytes_of(const Dataset& data) {
  int64_t bytes = 0;
  for (const bool second : {false, true}) {
    if (second && !data.has_second()) break;
    const auto tokens_of = [&](int64_t i) { return second ? data.tokens2(i) : data.tokens(i); };
    int64_t tokens = 0;
    for (int64_t i = 0; i < data.size(); ++i) tokens += tokens_of(i).size();
    bytes += tokens * tokens_of(0).width() + 8 * (data.size() + 1);
    if (data.has_places() && !second) bytes += tokens * data.places(0).width();
  }
  return bytes + 8 * data.size();
}

DeviceSource::DeviceSource(const Dataset& data, const DeviceDataset& on_device, const LoaderOptions& options)
    : data_(data), on_device_(on_device), options_(options), sizes_(data, options) {
  TORCH_CHECK(options.layout.packed, "[gather] rows are packed, the options ask for padding");
}

int64_t DeviceSource::length(int64_t example, bool second) const {
  const int64_t tokens = second ? data_.tokens2(example).size() : data_.length(example);
  return tokens + (options_.layout.cls ? 1 : 0);
}

int64_t DeviceSource::positions(int64_t step, int64_t micro_batch, bool second) const {
  int64_t sum = 0;
  for (int64_t row = first_row(micro_batch); row < first_row(micro_batch + 1); ++row) {
    sum += length(options_.example(step, row, data_.size()), second);
  }
  return sum;
}

int64_t DeviceSource::capacity(int64_t step, int64_t micro_batch, bool second) const {
  return sizes_.capacity(positions(step, micro_batch, second), second);
}

int64_t DeviceSource::real_tokens(int64_t step, int64_t micro_batch) const {
  const int64_t cls = options_.layout.cls ? first_row(micro_batch + 1) - first_row(micro_batch) : 0;
  const int64_t first = positions(step, micro_batch, false) - cls;
  return data_.has_second() ? first + positions(step, micro_batch, true) - cls : first;
}

Sequences DeviceSource::gather_document(const Tensor& step, int64_t micro_batch, int64_t capacity,
                                        bool second, const Tensor& labels) const {
  const DeviceDataset::Document& document = on_device_.document(second);
  const int64_t first = first_row(micro_batch), rows = first_row(micro_batch + 1) - first;
  const int64_t least = rows * sizes_.shortest(second), longest = sizes_.longest(second);
  const bool fixed = sizes_.fixed(second);
  TORCH_CHECK(fixed ? capacity == least : capacity >= least, "[gather] ", rows, " rows of ",
              sizes_.shortest(second), " to ", longest, " positions cannot have a capacity of ", capacity);
  const Tail tail = sizes_.tail(rows, capacity, second);

  const auto long_type = step.options(), int_type = long_type.dtype(torch::kInt);
  Sequences out;
  out.tokens = torch::empty({capacity}, int_type);
  out.rows.slots = torch::empty({capacity}, long_type);
  out.rows.offsets = torch::empty({rows + 1 + tail.rows}, int_type);
  out.rows.lengths = torch::empty({rows}, int_type);
  out.rows.count = rows;
  out.rows.positions = capacity;
  out.rows.longest = longest;
  out.rows.pitch = fixed ? longest : 0;
  out.rows.full = fixed;
  out.rows.gaps = document.places.defined();
  const Tensor starts = torch::empty({rows}, long_type);

  GatherArguments a{};
  a.tokens = document.tokens.const_data_ptr();
  a.token_bytes = document.token_bytes;
  a.places = document.places.defined() ? document.places.const_data_ptr() : nullptr;
  a.place_bytes = document.place_bytes;
  a.offsets = document.offsets.const_data_ptr<int64_t>();
  a.labels = labels.defined() ? on_device_.labels().const_data_ptr<int64_t>() : nullptr;
  a.examples = data_.size();
  a.step = step.const_data_ptr<int64_t>();
  a.batch = options_.batch, a.first_row = first, a.rows = rows;
  a.seed = options_.seed, a.frozen = options_.frozen();
  a.cls = options_.layout.cls, a.cls_id = static_cast<int32_t>(options_.layout.cls_id);
  a.capacity = capacity;
  a.tail_rows = tail.rows, a.tail_row_length = tail.row_length;
  a.starts = starts.mutable_data_ptr<int64_t>();
  a.out_tokens = out.tokens.mutable_data_ptr<int32_t>();
  a.out_slots = out.rows.slots.mutable_data_ptr<int64_t>();
  a.out_offsets = out.rows.offsets.mutable_data_ptr<int32_t>();
  a.out_lengths = out.rows.lengths.mutable_data_ptr<int32_t>();
  a.out_labels = labels.defined() ? labels.mutable_data_ptr<int64_t>() : nullptr;
  launch(gather_cuda, a, "gather");
  return out;
}

Batch DeviceSource::gather(const Tensor& step, int64_t micro_batch, int64_t capacity,
                           int64_t second_capacity) const {
  TORCH_CHECK(step.scalar_type() == torch::kLong && step.numel() == 1 &&
                  step.device() == on_device_.labels().device(),
              "[gather] the step is one int64 on ", on_device_.labels().device(), ", found ",
              step.toString());
  Batch batch;
  batch.rows = first_row(micro_batch + 1) - first_row(micro_batch);
  batch.labels = torch::empty({batch.rows}, step.options());
  batch.input = gather_document(step, micro_batch, capacity, false, batch.labels);
  if (data_.has_second()) batch.second = gather_document(step, micro_batch, second_capacity, true, {});
  return batch;
}

}  // namespace lra
