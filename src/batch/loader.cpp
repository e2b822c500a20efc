#include "batch/loader.h"

#include <chrono>
#include <numeric>

#include "base/philox.h"

namespace lra {
namespace {

constexpr size_t kPrefetched = 2;

Sequences pad(const Dataset& data, std::span<const int64_t> indices, bool second) {
  const auto rows = static_cast<int64_t>(indices.size());
  const auto tokens_of = [&](int64_t i) { return second ? data.tokens2(i) : data.tokens(i); };
  Sequences out;
  out.lengths = torch::empty({rows}, torch::kInt);
  auto* lengths = out.lengths.mutable_data_ptr<int32_t>();
  int64_t longest = 1, shortest = data.info().max_length;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = tokens_of(indices[static_cast<size_t>(r)]).size();
    lengths[r] = static_cast<int32_t>(n);
    longest = std::max(longest, n);
    shortest = std::min(shortest, n);
  }
  out.full = shortest == longest;
  out.tokens = torch::zeros({rows, longest}, torch::kInt);
  auto* tokens = out.tokens.mutable_data_ptr<int32_t>();
  for (int64_t r = 0; r < rows; ++r) {
    tokens_of(indices[static_cast<size_t>(r)])
        .copy_to({tokens + r * longest, static_cast<size_t>(lengths[r])});
  }
  return out;
}

}  // namespace

Batch Batch::to(const torch::Device& device) const {
  if (device.is_cpu()) return *this;
  const auto move = [&](const torch::Tensor& t) {
    return t.defined() ? t.to(device, /*non_blocking=*/true) : t;
  };
  Batch moved = *this;
  for (Sequences* s : {&moved.input, &moved.second}) {
    s->tokens = move(s->tokens);
    s->lengths = move(s->lengths);
  }
  moved.labels = move(labels);
  return moved;
}

int64_t shuffled_index(int64_t j, int64_t n, uint64_t seed) {
  const auto epoch = static_cast<uint64_t>(j / n);
  return static_cast<int64_t>(permuted(static_cast<uint64_t>(j % n), static_cast<uint64_t>(n), seed,
                                       stream_id("batch.order") ^ epoch));
}

Batch collate(const Dataset& data, std::span<const int64_t> indices) {
  Batch batch;
  batch.rows = static_cast<int64_t>(indices.size());
  batch.input = pad(data, indices, false);
  batch.real_tokens = batch.input.lengths.sum().item<int64_t>();
  if (data.has_second()) {
    batch.second = pad(data, indices, true);
    batch.real_tokens += batch.second.lengths.sum().item<int64_t>();
  }
  batch.labels = torch::empty({batch.rows}, torch::kLong);
  for (int64_t r = 0; r < batch.rows; ++r) {
    batch.labels.mutable_data_ptr<int64_t>()[r] = data.label(indices[static_cast<size_t>(r)]);
  }
  return batch;
}

std::vector<Batch> Loader::make(const Dataset& data, const LoaderOptions& options, int64_t step) {
  std::vector<int64_t> indices(static_cast<size_t>(options.batch));
  for (int64_t r = 0; r < options.batch; ++r) {
    indices[static_cast<size_t>(r)] = shuffled_index(step * options.batch + r, data.size(), options.seed);
  }
  std::vector<Batch> parts;
  for (int64_t m = 0; m < options.micro_batches; ++m) {
    const int64_t first = m * options.batch / options.micro_batches;
    const int64_t last = (m + 1) * options.batch / options.micro_batches;
    Batch part = collate(
        data, std::span(indices).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
    part.first_row = first;
    parts.push_back(std::move(part));
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
