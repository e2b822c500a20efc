// A sequence of device work recorded once and started again with one call. Implemented by the CUDA plugin
// (base/torch_compat.h).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

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

// One graph for each shape of the same work. The first time of a shape runs as it stands, which also brings
// up what libraries set up at their first call; the second is recorded, and from then on replayed.
class GraphPerShape {
 public:
  void run(const std::vector<int64_t>& shape, const std::function<void()>& work) {
    const auto [found, first_time] = graphs_.try_emplace(shape);
    if (first_time) return warm_up_for_capture(work);
    if (!found->second) {
      auto graph = make_cuda_graph();
      graph->capture(work);
      found->second = std::move(graph);
    }
    found->second->replay();
  }

 private:
  std::map<std::vector<int64_t>, std::unique_ptr<CudaGraph>> graphs_;
};

}  // namespace lra
