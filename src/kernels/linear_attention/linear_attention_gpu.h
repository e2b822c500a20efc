// linear_attention.h by the kernels of linear_attention_*.cu: bfloat16 on CUDA, not causal.
// Directions ω are rounded to bfloat16, in both passes and for queries and keys alike: random features are as
// good with them.
#pragma once
#include "kernels/linear_attention/linear_attention.h"

namespace lra {

// Set to false, CUDA runs the form of tensor operations everywhere.
inline constexpr bool kLinearAttentionUsesKernels = true;

// Whether the kernels have a form for such an input; where it lies is not looked at.
bool linear_attention_gpu_can(const LinearAttentionInput& input);
bool linear_attention_gpu_can(const FirstLinearAttentionInput& input);

torch::Tensor linear_attention_gpu(const LinearAttentionInput& input);
torch::Tensor linear_attention_first_gpu(const FirstLinearAttentionInput& input);

}  // namespace lra
