// Positions in the order of their tokens (embed_sort.cu).
#pragma once
#include <cuda_runtime.h>

#include "kernels/embed/embed_arguments.h"

namespace lra {

struct alignas(8) SortedToken {
  int32_t position, token;
};

// All positions by token, those of one token by position, filled up to EmbedPlan::records with position 0 and
// token −1. Within `scratch`, EmbedPlan::sort_size.
const SortedToken* sort_tokens(const EmbedPlan& plan, const int32_t* tokens, int32_t* scratch,
                               cudaStream_t stream);

}  // namespace lra
