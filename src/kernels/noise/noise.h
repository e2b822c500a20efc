// Random numbers as tensors, each a pure function of counters, like dropout's (kernels/dropout/bits.h):
// nothing is stored for the backward pass, a resumed run repeats itself, and what a row gets does not depend
// on how rows are batched. Not for much of it: what is made of the words are tensor operations.
//
//   w = the first word of philox(seed, site·2^48 + step, index);   u = (⌊w / 2^9⌋ + ½) / 2^23
#pragma once
#include <torch/types.h>

namespace lra {

struct Noise {
  uint64_t site = 0, seed = 0;
  torch::Tensor step;  // int64 [1], on the device of the indices
};

// Uniform in (0, 1), neither end included: exact in fp32. index: int64, not negative, any shape.
torch::Tensor uniform_noise(const torch::Tensor& index, const Noise& noise, torch::Dtype type);
// Standard normal: √(−2 ln u₂ᵢ) cos(2π u₂ᵢ₊₁)
torch::Tensor normal_noise(const torch::Tensor& index, const Noise& noise, torch::Dtype type);
// Gumbel's distribution: −ln(−ln u)
torch::Tensor gumbel_noise(const torch::Tensor& index, const Noise& noise, torch::Dtype type);

}  // namespace lra
