// Attention over rows by kernels of ours (attention.h): bf16, heads of up to 64, on Hopper's tensor cores.
// Their dropout is drawn from the counters that the CPU draws from (kernels/dropout/bits.h), so that the
// weights which are dropped are the same on both. Two runs give the same bits where deterministic algorithms
// are asked for, and otherwise but for the gradient of the queries. What is passed from the forward to the
// backward pass: the output and the log-sum-exp.
#pragma once
#include <string>

#include "base/cuda_launch.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_kernels_arguments.h"

namespace lra {

// Why they cannot do this; empty where they can.
std::string attention_kernels_refusal(const AttentionInput& input);
Tensor attention_by_kernels(const AttentionInput& input);

// Whether they are what `attention` takes: where weights are dropped, which no library does as exactly or in
// the same places (attention_library.h), and for heads narrower than the libraries' kernels are made for.
bool attention_kernels_serve(const AttentionInput& input);
bool attention_kernels_serve(torch::Dtype type, int64_t width, double dropout);  // on this device

}  // namespace lra
