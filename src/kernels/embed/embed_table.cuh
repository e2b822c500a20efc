// The gradient of the table and of CLS on CUDA (embed_table.cu).
#pragma once
#include <cuda_runtime.h>

#include "kernels/embed/embed_arguments.h"

namespace lra {

cudaError_t embed_table_backward(const EmbedGradientArguments& a, cudaStream_t stream);

}  // namespace lra
