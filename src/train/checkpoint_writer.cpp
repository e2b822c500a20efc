#include "train/checkpoint_writer.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace lra {
namespace {

constexpr size_t kQueued = 2;  // more would only hold memory

}  // namespace

HostCopy::HostCopy(const Tensor& tensor) {
  const torch::Device device = tensor.device();
  if (device.is_cpu()) {
    host_ = tensor.clone();
    return;
  }
  device_ = tensor.clone();  // the next step may begin
  c10::Event copied(device.type());
  copied.record(at::accelerator::getCurrentStream(device.index()));
  static const c10::Stream stream =
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  const c10::StreamGuard guard(stream);
  copied.block(stream);
  host_ = torch::empty(tensor.sizes(), tensor.options().device(torch::kCPU).pinned_memory(true));
  host_.copy_(device_, /*non_blocking=*/true);
  done_.emplace(device.type());
  done_->record(stream);
}

const Tensor& HostCopy::get() {
  if (done_) done_->synchronize();
  device_ = Tensor();
  return host_;
}

CheckpointWriter::CheckpointWriter(fs::path run, const FlatState& layout)
    : run_(std::move(run)), layout_(layout), thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::save(const std::string& name, const TrainState& state, Describe describe) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || jobs_.size() < kQueued; });
  rethrow(lock);
  jobs_.push_back({name, Snapshot(state), std::move(describe)});
  lock.unlock();
  changed_.notify_all();
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || jobs_.empty(); });
  rethrow(lock);
}

void CheckpointWriter::rethrow(std::unique_lock<std::mutex>&) {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;  // stopped, and everything is written
    Job& job = jobs_.front();   // stays in the queue while it is written: `wait` waits for it
    lock.unlock();
    std::exception_ptr failure;
    try {
      write(job);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    jobs_.pop_front();
    if (failure) failure_ = failure;
    changed_.notify_all();
  }
}

void CheckpointWriter::write(Job& job) const {
  if (*job.snapshot.bad_step.get().const_data_ptr<int64_t>() >= 0) return;
  std::vector<NamedTensor> model, optimizer;
  layout_.describe(job.snapshot.parameters.get(), "", model);
  layout_.describe(job.snapshot.first.get(), "first.", optimizer);
  layout_.describe(job.snapshot.second.get(), "second.", optimizer);
  save_checkpoint(run_, job.name, model, optimizer,
                  job.describe(job.snapshot.sums.get().const_data_ptr<double>()));
}

}  // namespace lra
