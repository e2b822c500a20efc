// Examples → batches. Which examples a step sees is a pure function of (seed, step): nothing to store for a
// resume, and every device agrees.
//
//   Loader loader(dataset, {.batch = 32, .micro_batches = 1, .seed = 0}, first_step);
//   std::vector<Batch> step = loader.next();       // prepared by another thread while the last step ran
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "batch/batch.h"
#include "batch/order.h"
#include "data/dataset.h"

namespace lra {

// Rows in the order of `indices`; the first is row `first_row` of the whole batch.
Batch collate(const Dataset& data, std::span<const int64_t> indices, const LayoutOptions& layout,
              int64_t first_row = 0);

struct LoaderOptions {
  int64_t batch = 32;         // examples a step
  int64_t micro_batches = 1;  // parts it is split into
  uint64_t seed = 0;
  LayoutOptions layout = {};
  bool shuffle_batches = false;  // instead of examples: example_at

  int64_t frozen() const { return shuffle_batches ? batch : 0; }
  int64_t example(int64_t step, int64_t row, int64_t n) const {
    return example_at(step * batch + row, n, seed, frozen());
  }
};

class Loader {
 public:
  Loader(const Dataset& data, const LoaderOptions& options, int64_t first_step);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::vector<Batch> next();                         // the micro-batches of the next step
  double waited_seconds() const { return waited_; }  // in `next`, in all

  // The batches of any step, made on the spot.
  static std::vector<Batch> make(const Dataset& data, const LoaderOptions& options, int64_t step);

 private:
  void work(int64_t first_step);

  const Dataset& data_;
  LoaderOptions options_;
  std::deque<std::vector<Batch>> ready_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  double waited_ = 0;
  std::thread thread_;
};

// All examples once, in batches of similar length, for evaluation: the indices of each batch.
std::vector<std::vector<int64_t>> evaluation_batches(const Dataset& data, int64_t batch);

}  // namespace lra
