// Tells the program which stream LibTorch works on, when the plugin is loaded.
#include <c10/cuda/CUDAStream.h>

#include "base/cuda_launch.h"

namespace lra {
namespace {
const bool registered = [] {
  current_cuda_stream = [] { return static_cast<CudaStream>(c10::cuda::getCurrentCUDAStream().stream()); };
  return true;
}();
}  // namespace
}  // namespace lra
