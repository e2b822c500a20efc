// Products of matrices, [M, K] [K, N] → [M, N]; a and b may be transposed views.
//
// In bfloat16 on CUDA by cuBLASLt, with the algorithm that was the fastest of those its heuristics offer when
// the sizes were met first, which happens before a step is recorded. Their own first choice is up to a
// quarter slower for the shapes of these models, a hundred thousand positions by a few hundred columns.
// Deterministic runs take the first, since what was the fastest may differ from run to run. Everything else
// is LibTorch's.
#pragma once
#include <torch/types.h>

#include "base/cuda_launch.h"

namespace lra {

using torch::Tensor;

Tensor product(const Tensor& a, const Tensor& b);
// into += a b, where `into` may be of a wider type: weight gradients are fp32 sums of bfloat16 products.
void add_product(const Tensor& into, const Tensor& a, const Tensor& b);

// Row-major: element (i, j) of a is a[i·a_stride + j], of a transposed one a[j·a_stride + i].
struct ProductArguments {
  const void *a, *b;  // bfloat16
  void* y;            // [M, N] bfloat16; with `adds` fp32, added to
  int64_t M, N, K;
  int64_t a_stride, b_stride, y_stride;
  bool a_transposed, b_transposed, adds;
  bool deterministic;
};
inline constexpr int kProductRefused = -1;  // what the launcher returns where it has no algorithm
extern CudaLauncher<ProductArguments> product_cuda;

}  // namespace lra
