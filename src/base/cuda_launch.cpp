#include "base/cuda_launch.h"

#include "base/cuda_graph.h"
#include "base/error.h"

namespace lra {

CudaStream (*current_cuda_stream)() = nullptr;
std::unique_ptr<CudaGraph> (*make_cuda_graph)() = nullptr;
void (*warm_up_for_capture)(const std::function<void()>&) = nullptr;

void check_launch(bool loaded, const char* kernel) {
  if (!loaded) fail(kernel, "the CUDA plugin is not loaded.");
}

void check_launch_result(int error, const char* kernel) {
  if (error != 0) fail(kernel, "the launch failed with CUDA error {}.", error);
}

}  // namespace lra
