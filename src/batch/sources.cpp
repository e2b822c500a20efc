#include "batch/sources.h"

namespace lra {

LoaderSource::LoaderSource(const Dataset& data, const LoaderOptions& options, int64_t first_step,
                           const torch::Device& device)
    : data_(data), options_(options), device_(device), loader_(data, options, first_step) {}

void LoaderSource::prepare(int64_t) { made_ = loader_.next(); }

Batch LoaderSource::batch(int64_t m, const torch::Tensor&) {
  return made_.at(static_cast<size_t>(m)).to(device_);
}

int64_t LoaderSource::tokens(int64_t step) { return step_tokens(data_, options_, step); }

namespace {

// Of 32 lengths of rows.
LoaderOptions with_few_grids(LoaderOptions options, const Dataset& data) {
  options.layout.grid_most = data.info().max_length + (options.layout.cls ? 1 : 0);
  options.layout.grid_step = std::max<int64_t>(32, (options.layout.grid_most + 31) / 32);
  return options;
}

void copy_into(Batch& to, const Batch& from) {
  const auto copy = [](torch::Tensor& target, const torch::Tensor& source) {
    if (!source.defined()) return;
    target.copy_(target.is_cuda() ? source.pin_memory() : source, /*non_blocking=*/true);
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
    : LoaderSource(data, options.layout.packed ? options : with_few_grids(options, data), first_step, device),
      sizes_(data, options) {}

// Packed rows are brought to one of a few sizes; {size, pitch, whether full}.
std::vector<int64_t> StagedSource::bring_to_size(Sequences& s, bool second) const {
  if (options_.layout.packed && !sizes_.fixed(second)) {
    const int64_t capacity = sizes_.capacity(s.rows.positions, second);
    s = fill_up(s, capacity, sizes_.tail(s.rows.count, capacity, second), Rows::slot_of(options_.batch, 0));
    s.rows.longest = sizes_.longest(second);
  }
  return {s.rows.positions, s.rows.pitch, s.rows.full ? 1 : 0};
}

std::vector<int64_t> StagedSource::key(int64_t m) const {
  std::vector<int64_t> key = shapes_.at(static_cast<size_t>(m));
  key.push_back(m);
  return key;
}

void StagedSource::prepare(int64_t step) {
  LoaderSource::prepare(step);
  shapes_.clear();
  for (size_t m = 0; m < made_.size(); ++m) {
    Batch& made = made_[m];
    shapes_.push_back(bring_to_size(made.input, false));
    if (data_.has_second()) {
      const auto second = bring_to_size(made.second, true);
      shapes_.back().insert(shapes_.back().end(), second.begin(), second.end());
    }
    const auto [found, first_time] = buffers_.try_emplace(key(static_cast<int64_t>(m)));
    if (first_time) {
      found->second = made.to(device_);
    } else {
      copy_into(found->second, made);
    }
  }
}

ResidentSource::ResidentSource(const Dataset& data, const LoaderOptions& options, const torch::Device& device)
    : data_(data), options_(options), on_device_(data, device), source_(data, on_device_, options) {}

Batch ResidentSource::batch(int64_t m, const torch::Tensor& counter) {
  const std::vector<int64_t> sizes = shape(m);
  return source_.gather(counter, m, sizes[0], sizes.size() > 1 ? sizes[1] : 0);
}

std::vector<int64_t> ResidentSource::shape(int64_t m) {
  std::vector<int64_t> sizes = {source_.capacity(step_, m, false)};
  if (data_.has_second()) sizes.push_back(source_.capacity(step_, m, true));
  return sizes;
}

std::string ResidentSource::description() const {
  return "data on the device (" + std::to_string(on_device_.bytes() >> 20) + " MiB)";
}

std::unique_ptr<BatchSource> make_source(const Dataset& data, const LoaderOptions& options,
                                         int64_t first_step, const torch::Device& device, int64_t granted) {
  if (device.is_cpu() || options.layout.filled_to > 0) {
    return std::make_unique<LoaderSource>(data, options, first_step, device);
  }
  if (!options.layout.packed || DeviceDataset::bytes_of(data) > granted) {
    return std::make_unique<StagedSource>(data, options, first_step, device);
  }
  return std::make_unique<ResidentSource>(data, options, device);
}

Sequences fill_up(const Sequences& packed, int64_t capacity, const Tail& tail, int64_t slot) {
  const Rows& rows = packed.rows;
  const int64_t left = capacity - rows.positions;
  TORCH_CHECK(left >= 0 && left <= tail.rows * tail.row_length, "[batch] ", rows.positions,
              " positions do not fit ", capacity);
  Sequences out = packed;
  out.tokens = torch::cat({packed.tokens, torch::zeros({left}, torch::kInt)});
  out.rows.slots = torch::cat({rows.slots, torch::full({left}, slot, torch::kLong)});
  const torch::Tensor ends =
      (rows.positions + tail.row_length * torch::arange(1, tail.rows + 1, torch::kInt)).clamp_max(capacity);
  out.rows.offsets = torch::cat({rows.offsets, ends.to(torch::kInt)});
  out.rows.positions = capacity;
  out.rows.pitch = 0;
  out.rows.full = false;
  return out;
}

int64_t largest_micro_batch(const Dataset& data, const LoaderOptions& options, int64_t steps) {
  const int64_t lead = options.layout.cls ? 1 : 0;
  const auto length = [&](int64_t row, bool second) {
    if (options.layout.filled_to > 0) return options.layout.filled_to + lead;
    return (second ? data.tokens2(row).size() : data.length(row)) + lead;
  };
  int64_t most = 0;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t row = 0;
    for (int64_t m = 0; m < options.micro_batches; ++m) {
      const int64_t first = row, last = (m + 1) * options.batch / options.micro_batches;
      int64_t sum = 0, longest = 0;
      for (; row < last; ++row) {
        const int64_t i = options.example(step, row, data.size());
        for (const bool second : {false, true}) {
          if (second && !data.has_second()) break;
          sum += length(i, second);
          longest = std::max(longest, length(i, second));
        }
      }
      const int64_t documents = data.has_second() ? 2 : 1;
      most = std::max(most, options.layout.packed ? sum : (last - first) * longest * documents);
    }
  }
  return most;
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
