// Attention on CUDA by the kernels that LibTorch carries (attention.h).
//
// Which one, measured on an H200 (docs/performance.md): cuDNN in bf16, full rows or packed, called by its own
// interface (attention_cudnn.h); flash with dropout other than sixteenths, to which cuDNN rounds (PyTorch's
// pull request 174245; a rate of 0.3 kept 0.77 in a test of ours), where the program was built without
// cuDNN's headers, where cuDNN refuses a shape or rows are too many for its 32-bit offsets, and for CLS
// queries alone; the memory-efficient kernel for fp32, which the others do not know.
//
// Attention dropout is drawn inside these kernels: cuDNN's from a seed that is a function of run, step and
// layer, the others' from the device generator's counter, which the step engine sets from (seed, step). So it
// is the same after a resume, but other numbers than on the CPU and, unlike every other dropout, dependent on
// how rows are batched.
#pragma once
#include "kernels/attention/attention.h"

namespace lra {

enum class AttentionLibrary : int64_t { kCudnn, kFlash, kEfficient };
bool attention_has_cudnn();  // the program was built with it
AttentionLibrary attention_library_for(torch::Dtype type, double dropout);
Tensor attention_by(AttentionLibrary library, const AttentionInput& input);  // rows packed or full

Tensor attention_library(const AttentionInput& input);
Tensor attention_first_library(const FirstAttentionInput& input);
std::string attention_library_name(torch::Dtype type, bool full, double dropout);

// The library's own choice among its kernels, without cuDNN where that would round the rate of dropout.
// q, k, v: [B, H, ·, ·]; mask: added to the scores; the default scale is 1/√P.
struct LibraryAttentionInput {
  Tensor q, k, v;
  std::optional<Tensor> mask = {};
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale = {};
};
Tensor attention_of_library(const LibraryAttentionInput& input);

// Between the two passes of an autograd function.
void save_rows(torch::autograd::AutogradContext& context, const Rows& rows);
Rows saved_rows(torch::autograd::AutogradContext& context);

}  // namespace lra
