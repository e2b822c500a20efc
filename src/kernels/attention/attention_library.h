// Attention on CUDA by the kernels that LibTorch carries (attention.h).
//
// Which one, measured on an H200 (docs/performance.md): cuDNN for full rows without dropout, flash otherwise,
// with cumulative lengths where rows are packed; the memory-efficient kernel for fp32, which flash does not
// know. Attention dropout is drawn inside these kernels from the device generator's counter, which the step
// engine sets from (seed, step): the same after a resume, but other numbers than on the CPU and, unlike every
// other dropout, dependent on how rows are batched.
#pragma once
#include "kernels/attention/attention.h"

namespace lra {

Tensor attention_library(const AttentionInput& input);
Tensor attention_first_library(const FirstAttentionInput& input);
std::string attention_library_name(torch::Dtype type, bool full, bool dropout);

// Between the two passes of an autograd function.
void save_rows(torch::autograd::AutogradContext& context, const Rows& rows);
Rows saved_rows(torch::autograd::AutogradContext& context);

}  // namespace lra
