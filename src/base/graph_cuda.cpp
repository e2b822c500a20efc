#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "base/cuda_graph.h"

namespace lra {
namespace {

c10::cuda::CUDAStream capture_stream() {
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  return stream;
}

void on_capture_stream(const std::function<void()>& work) {
  const c10::cuda::CUDAStream stream = capture_stream(), before = c10::cuda::getCurrentCUDAStream();
  before.synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    work();
  }
  stream.synchronize();
}

// One for all graphs that are alive; the allocator forgets a pool with the last of them.
std::shared_ptr<at::cuda::MempoolId_t> shared_pool() {
  static std::weak_ptr<at::cuda::MempoolId_t> current;
  auto pool = current.lock();
  if (!pool) {
    pool = std::make_shared<at::cuda::MempoolId_t>(at::cuda::graph_pool_handle());
    current = pool;
  }
  return pool;
}

class TorchGraph : public CudaGraph {
 public:
  void capture(const std::function<void()>& work) override {
    // What the warm-up left in the allocator's cache would be taken a second time, and a recording cannot ask
    // for it back.
    c10::cuda::CUDACachingAllocator::emptyCache();
    on_capture_stream([&] {
      // Other threads may allocate or copy meanwhile (data, checkpoints): only this one is restricted.
      graph_.capture_begin(*pool_, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        try {
          graph_.capture_end();
        } catch (...) {  // the first error is the one to tell
        }
        throw;
      }
      graph_.capture_end();
    });
  }
  void replay() override { graph_.replay(); }

 private:
  std::shared_ptr<at::cuda::MempoolId_t> pool_ = shared_pool();
  at::cuda::CUDAGraph graph_;
};

const bool registered = [] {
  make_cuda_graph = []() -> std::unique_ptr<CudaGraph> { return std::make_unique<TorchGraph>(); };
  warm_up_for_capture = on_capture_stream;
  return true;
}();

}  // namespace
}  // namespace lra
