#include "batch/loader.h"

#include <chrono>
#include <numeric>
namespace lra {
namespace {

constexpr size_t kPrefetched = 2;

// Positions are named by their places in the whole sequence, not in what is left of it.
void put_places(const Dataset& data, std::span<const int64_t> indices, int32_t lead, int64_t first_row,
                Rows& rows) {
  rows.gaps = true;
  const auto* offsets = rows.offsets.const_data_ptr<int32_t>();
  auto* slots = rows.slots.mutable_data_ptr<int64_t>();
  for (size_t r = 0; r < indices.size(); ++r) {
    data.check_places(indices[r]);
    const Tokens places = data.places(indices[r]);
    for (int64_t t = 0; t < places.size(); ++t) {
      slots[offsets[r] + lead + t] = Rows::slot_of(first_row + static_cast<int64_t>(r), lead + places[t]);
    }
  }
}

Sequences gather(const Dataset& data, std::span<const int64_t> indices, bool second,
                 const LayoutOptions& layout, int64_t first_row) {
  const auto tokens_of = [&](int64_t i) { return second ? data.tokens2(i) : data.tokens(i); };
  const int32_t lead = layout.cls ? 1 : 0;
  const bool filled = layout.filled_to > 0, has_places = data.has_places() && !second;
  std::vector<int32_t> lengths;
  for (const int64_t i : indices) {
    lengths.push_back(static_cast<int32_t>(filled ? layout.filled_to : tokens_of(i).size()) + lead);
  }
  Sequences out;
  out.rows = lay_out(lengths, layout.packed, first_row, layout);
  out.tokens = torch::full({out.rows.positions}, layout.pad_id, torch::kInt);
  auto* tokens = out.tokens.mutable_data_ptr<int32_t>();
  const auto* offsets = out.rows.offsets.const_data_ptr<int32_t>();
  for (size_t r = 0; r < indices.size(); ++r) {
    int32_t* row = tokens + offsets[r];
    if (layout.cls) *row = static_cast<int32_t>(layout.cls_id);
    const Tokens from = tokens_of(indices[r]);
    TORCH_CHECK(from.size() <= lengths[r] - lead, "[batch] example ", indices[r], " has ", from.size(),
                " tokens, rows are filled up to ", layout.filled_to);
    if (filled && has_places) {
      data.check_places(indices[r]);
      const Tokens places = data.places(indices[r]);
      for (int64_t t = 0; t < from.size(); ++t) row[lead + places[t]] = static_cast<int32_t>(from[t]);
    } else {
      from.copy_to({row + lead, static_cast<size_t>(from.size())});
    }
  }
  if (has_places && !filled) put_places(data, indices, lead, first_row, out.rows);
  return out;
}

}  // namespace

Batch collate(const Dataset& data, std::span<const int64_t> indices, const LayoutOptions& layout,
              int64_t first_row) {
  Batch batch;
  batch.rows = static_cast<int64_t>(indices.size());
  batch.input = gather(data, indices, false, layout, first_row);
  if (data.has_second()) batch.second = gather(data, indices, true, layout, first_row);
  batch.labels = torch::empty({batch.rows}, torch::kLong);
  for (int64_t r = 0; r < batch.rows; ++r) {
    const int64_t i = indices[static_cast<size_t>(r)];
    batch.labels.mutable_data_ptr<int64_t>()[r] = data.label(i);
    batch.real_tokens += data.tokens(i).size() + (data.has_second() ? data.tokens2(i).size() : 0);
  }
  return batch;
}

std::vector<Batch> Loader::make(const Dataset& data, const LoaderOptions& options, int64_t step) {
  std::vector<int64_t> indices(static_cast<size_t>(options.batch));
  for (int64_t r = 0; r < options.batch; ++r) {
    indices[static_cast<size_t>(r)] = options.example(step, r, data.size());
  }
  std::vector<Batch> parts;
  for (int64_t m = 0; m < options.micro_batches; ++m) {
    const int64_t first = m * options.batch / options.micro_batches;
    const int64_t last = (m + 1) * options.batch / options.micro_batches;
    parts.push_back(collate(
        data, std::span(indices).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)),
        options.layout, first));
  }
  return parts;
}

Loader::Loader(const Dataset& data, const LoaderOptions& options, int64_t first_step)
    : data_(data), options_(options), thread_([this, first_step] { work(first_step); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::work(int64_t first_step) {
  for (int64_t step = first_step;; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < kPrefetched; });
      if (stop_) return;
    }
    std::vector<Batch> made;
    std::exception_ptr failure;
    try {
      made = make(data_, options_, step);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure) {
        failure_ = failure;
      } else {
        ready_.push_back(std::move(made));
      }
    }
    changed_.notify_all();
    if (failure) return;
  }
}

std::vector<Batch> Loader::next() {
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(failure_);
  std::vector<Batch> first = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return first;
}

std::vector<std::vector<int64_t>> evaluation_batches(const Dataset& data, int64_t batch) {
  std::vector<int64_t> order(static_cast<size_t>(data.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return data.length(a) < data.length(b); });
  std::vector<std::vector<int64_t>> batches;
  for (size_t at = 0; at < order.size(); at += static_cast<size_t>(batch)) {
    const size_t end = std::min(order.size(), at + static_cast<size_t>(batch));
    batches.emplace_back(order.begin() + static_cast<int64_t>(at), order.begin() + static_cast<int64_t>(end));
  }
  return batches;
}

}  // namespace lra
