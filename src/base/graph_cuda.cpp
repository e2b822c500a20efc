#include <ATen/cuda/CUDAGraph.h>
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

class TorchGraph : public CudaGraph {
 public:
  void capture(const std::function<void()>& work) override {
    static const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
    on_capture_stream([&] {
      // Other threads may allocate or copy meanwhile (data, checkpoints): only this one is restricted.
      graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
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
  at::cuda::CUDAGraph graph_;
};

const bool registered = [] {
  make_cuda_graph = []() -> std::unique_ptr<CudaGraph> { return std::make_unique<TorchGraph>(); };
  warm_up_for_capture = on_capture_stream;
  return true;
}();

}  // namespace
}  // namespace lra
