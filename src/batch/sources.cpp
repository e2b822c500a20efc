#include "batch/sources.h"

namespace lra {

LoaderSource::LoaderSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
                           const torch::Device& device)
    : data_(data), options_(options), device_(device), loader_(data, options, first_step) {}

std::vector<Batch> LoaderSource::batches(int64_t, const torch::Tensor&) {
  std::vector<Batch> made = loader_.next();
  for (auto& batch : made) batch = batch.to(device_);
  return made;
}

int64_t LoaderSource::tokens(int64_t step) { return step_tokens(data_, options_, step); }

namespace {

constexpr int64_t kTailRow =
    256;  // positions of a tail row: short, so that attention over them costs nothing

// Sizes of one micro-batch's buffers: {capacity, capacity of the second document}.
std::vector<int64_t> capacities(const Batch& batch, const Dataset& data, const LoaderOptions& options) {
  const int64_t largest = batch.rows * (data.info().max_length + (options.layout.cls ? 1 : 0));
  std::vector<int64_t> out = {DeviceSource::bucket(batch.input.rows.positions, largest)};
  if (data.has_second()) out.push_back(DeviceSource::bucket(batch.second.rows.positions, largest));
  return out;
}

Batch filled_up(Batch batch, const std::vector<int64_t>& capacity, int64_t longest, int64_t tail_slot) {
  const int64_t tail_row = std::min(kTailRow, longest);
  const auto fill = [&](const Sequences& s, int64_t size) {
    Sequences out = fill_up(s, size, {(size - batch.rows + tail_row - 1) / tail_row, tail_row, tail_slot});
    out.rows.longest = longest;
    return out;
  };
  batch.input = fill(batch.input, capacity[0]);
  if (batch.second.tokens.defined()) batch.second = fill(batch.second, capacity[1]);
  return batch;
}

void copy_into(Batch& to, const Batch& from) {
  const auto copy = [](torch::Tensor& target, const torch::Tensor& source) {
    if (source.defined()) target.copy_(source.pin_memory(), /*non_blocking=*/true);
  };
  for (const auto& [t, f] : {std::pair{&to.input, &from.input}, std::pair{&to.second, &from.second}}) {
    copy(t->tokens, f->tokens);
    copy(t->rows.offsets, f->rows.offsets);
    copy(t->rows.lengths, f->rows.lengths);
    copy(t->rows.slots, f->rows.slots);
  }
  copy(to.labels, from.labels);
}

}  // namespace

StagedSource::StagedSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
                           const torch::Device& device)
    : LoaderSource(data, options, first_step, device) {}

void StagedSource::prepare(int64_t) {
  std::vector<Batch> made = loader_.next();
  const int64_t longest = data_.info().max_length + (options_.layout.cls ? 1 : 0);
  shape_.clear();
  for (auto& batch : made) {
    const auto capacity = capacities(batch, data_, options_);
    shape_.insert(shape_.end(), capacity.begin(), capacity.end());
    batch = filled_up(std::move(batch), capacity, longest, Rows::slot_of(options_.batch, 0));
  }
  const auto [found, first_time] = buffers_.try_emplace(shape_);
  if (first_time) {
    for (const auto& batch : made) found->second.push_back(batch.to(device_));
    return;
  }
  for (size_t m = 0; m < made.size(); ++m) copy_into(found->second[m], made[m]);
}

ResidentSource::ResidentSource(const Dataset& data, const LoaderOptions& options, const torch::Device& device)
    : data_(data), options_(options), on_device_(data, device), source_(data, on_device_, options) {}

std::vector<Batch> ResidentSource::batches(int64_t step, const torch::Tensor& counter) {
  const std::vector<int64_t> sizes = shape(step);
  const size_t documents = data_.has_second() ? 2 : 1;
  std::vector<Batch> out;
  for (int64_t m = 0; m < options_.micro_batches; ++m) {
    const size_t at = documents * static_cast<size_t>(m);
    out.push_back(source_.gather(counter, m, sizes[at], documents == 2 ? sizes[at + 1] : 0));
  }
  return out;
}

std::vector<int64_t> ResidentSource::shape(int64_t step) {
  std::vector<int64_t> sizes;
  for (int64_t m = 0; m < options_.micro_batches; ++m) {
    sizes.push_back(source_.capacity(step, m, false));
    if (data_.has_second()) sizes.push_back(source_.capacity(step, m, true));
  }
  return sizes;
}

std::string ResidentSource::description() const {
  return "data on the device (" + std::to_string(on_device_.bytes() >> 20) + " MiB)";
}

std::unique_ptr<BatchSource> make_source(const Dataset& data, const LoaderOptions& options,
                                         int64_t first_step, const torch::Device& device, int64_t granted) {
  if (device.is_cpu() || !options.layout.packed || options.layout.filled_to > 0) {
    return std::make_unique<LoaderSource>(data, options, first_step, device);
  }
  // Tokens of two bytes at most, offsets and labels of eight.
  const int64_t needed = 2 * data.total_tokens() * (data.has_second() ? 2 : 1) + 24 * data.size();
  if (needed > granted) return std::make_unique<StagedSource>(data, options, first_step, device);
  return std::make_unique<ResidentSource>(data, options, device);
}

Sequences fill_up(const Sequences& packed, int64_t capacity, const Tail& tail) {
  const Rows& rows = packed.rows;
  const int64_t left = capacity - rows.positions;
  TORCH_CHECK(left >= 0 && left <= tail.rows * tail.row_length, "[batch] ", rows.positions,
              " positions do not fit ", capacity);
  Sequences out = packed;
  out.tokens = torch::cat({packed.tokens, torch::zeros({left}, torch::kInt)});
  out.rows.slots = torch::cat({rows.slots, torch::full({left}, tail.slot, torch::kLong)});
  const torch::Tensor ends =
      (rows.positions + tail.row_length * torch::arange(1, tail.rows + 1, torch::kInt)).clamp_max(capacity);
  out.rows.offsets = torch::cat({rows.offsets, ends.to(torch::kInt)});
  out.rows.positions = capacity;
  out.rows.pitch = 0;
  out.rows.full = false;
  return out;
}

int64_t step_tokens(const Dataset& data, const LoaderOptions& options, int64_t step) {
  int64_t tokens = 0;
  for (int64_t r = 0; r < options.batch; ++r) {
    const int64_t i = options.example(step, r, data.size());
    tokens += data.tokens(i).size() + (data.has_second() ? data.tokens2(i).size() : 0);
  }
  return tokens;
}

}  // namespace lra
