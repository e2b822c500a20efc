// Random directions for kernel features ("Rethinking Attention with Performers", §2.4): M rows ω of width P,
// each distributed as a standard normal vector, those of one block of P rows orthogonal to each other.
//
//   G ~ N(0, 1)^{P×P};  rows q_i of G by Gram and Schmidt;  ω_i = ‖g_i‖ q_i             block by block
//
// (the length of a normal vector does not depend on its direction, so ‖g_i‖ is as good as a length drawn
// anew). Nothing is stored: the numbers are those of kernels/noise for (seed, site, draw), with draw = step /
// period during training. On CUDA the step stays on the device, and the whole is one launch.
#pragma once
#include <torch/types.h>

namespace lra {

struct OrthogonalFeatures {
  int64_t count = 0, width = 0;  // M, P
  uint64_t site = 0, seed = 0;
  torch::Tensor step = {};  // int64 [1]; undefined: one fixed draw, for evaluation
  int64_t period = 1;       // steps that share a draw
};

// [M, P] in double precision, on `device`.
torch::Tensor orthogonal_features(const OrthogonalFeatures& f, const torch::Device& device);
// By the CUDA kernel; P is at most kOrthogonalMaxWidth.
torch::Tensor orthogonal_features_gpu(const OrthogonalFeatures& f, const torch::Device& device);

}  // namespace lra
