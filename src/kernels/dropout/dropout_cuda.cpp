// Hands the CUDA kernel to the dispatcher when the plugin is loaded.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/dropout/dropout.h"

namespace lra {
namespace {
const bool registered = [] {
  dropout_cuda = [](const DropoutArguments& a) {
    dropout_launch(a, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_CHECK(cudaGetLastError());
  };
  return true;
}();
}  // namespace
}  // namespace lra
