// The kernels of the backward pass, each in a file of its own, in the order of interval_backward_cuda.
#pragma once
#include <cuda_runtime.h>

#include "kernels/interval_attention/interval_attention_arguments.h"

namespace lra {

// interval_attention_query.cu
void start_interval_delta(const IntervalBackwardArguments& a, cudaStream_t stream);
void start_interval_query(const IntervalBackwardArguments& a, int round, cudaStream_t stream);
// interval_attention_inverse.cu: fills `inverse`, one of the two of `a`.
void start_interval_inverse(const IntervalBackwardArguments& a, const IntervalInverse& inverse,
                            cudaStream_t stream);
// interval_attention_key.cu, which also has interval_backward_cuda itself.

}  // namespace lra
