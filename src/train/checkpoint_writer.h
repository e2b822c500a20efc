// Saves checkpoints while training goes on: the state is copied where it is, brought to the host on a stream
// of its own and written by a thread, each checkpoint replaced as a whole (runs/checkpoint.h).
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "train/step_engine.h"

namespace lra {

// A tensor as it stands now, on its way to the host on a stream of its own.
class HostCopy {
 public:
  explicit HostCopy(const Tensor& tensor);
  const Tensor& get();  // waits until it is there

 private:
  Tensor device_, host_;
  std::optional<c10::Event> done_;
};

// A train state as it stood at one moment.
struct Snapshot {
  explicit Snapshot(const TrainState& state)
      : parameters(state.flat.parameters),
        first(state.flat.first),
        second(state.flat.second),
        sums(state.sums),
        bad_step(state.bad_step) {}
  HostCopy parameters, first, second, sums, bad_step;
};

class CheckpointWriter {
 public:
  CheckpointWriter(fs::path run, const FlatState& layout);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // `describe` makes state.json from the metric sums; it is called by the writing thread. A state from behind
  // a step that was not finite is not written.
  using Describe = std::function<Json(const double* sums)>;
  void save(const std::string& name, const TrainState& state, Describe describe);
  void wait();  // until everything is written; throws what went wrong

 private:
  struct Job {
    std::string name;
    Snapshot snapshot;
    Describe describe;
  };
  void work();
  void write(Job& job) const;
  void rethrow(std::unique_lock<std::mutex>& lock);

  fs::path run_;
  const FlatState& layout_;
  std::deque<Job> jobs_;  // the first is being written
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lra
