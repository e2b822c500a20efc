// Attention on CUDA by the kernels that LibTorch carries (attention.h).
//
// Which one, measured on an H200 (docs/performance.md): cuDNN in bf16, full rows or packed, called by its own
// interface (attention_cudnn.h); flash where the program was built without that or rows are too many for its
// 32-bit offsets, and for CLS queries alone; the memory-efficient kernel for fp32, which the others do not
// know. cuDNN draws attention dropout from a seed that is a counter's: a function of run, step and layer, the
// same after a resume. The other two draw from the device generator, which the step engine sets from (seed,
// step). All draw other numbers than the CPU does and, unlike every other dropout, dependent on how rows are
// batched.
#pragma once
#include "kernels/attention/attention.h"

namespace lra {

enum class AttentionLibrary : int64_t { kCudnn, kFlash, kEfficient };
bool attention_has_cudnn();  // the program was built with it
AttentionLibrary attention_library_for(torch::Dtype type);
Tensor attention_by(AttentionLibrary library, const AttentionInput& input);  // rows packed or full

Tensor attention_library(const AttentionInput& input);
Tensor attention_first_library(const FirstAttentionInput& input);
std::string attention_library_name(torch::Dtype type, bool full, bool dropout);

// Between the two passes of an autograd function.
void save_rows(torch::autograd::AutogradContext& context, const Rows& rows);
Rows saved_rows(torch::autograd::AutogradContext& context);

}  // namespace lra
