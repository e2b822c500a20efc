// A sequence of device work recorded once and started again with one call. Implemented by the CUDA plugin
// (base/torch_compat.h).
#pragma once
#include <functional>
#include <memory>

namespace lra {

class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  // Records what `work` starts on the current device; nothing runs. All graphs share one pool of memory: they
  // must not run at the same time, and what one leaves there is gone when another runs.
  virtual void capture(const std::function<void()>& work) = 0;
  virtual void replay() = 0;
};

// Null while the plugin is not loaded.
extern std::unique_ptr<CudaGraph> (*make_cuda_graph)();

// Runs `work` on a stream of its own and waits: what must happen once before a capture (handles, workspaces,
// plans).
extern void (*warm_up_for_capture)(const std::function<void()>& work);

}  // namespace lra
