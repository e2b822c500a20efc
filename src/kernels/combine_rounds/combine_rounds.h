// The rounds of hashed attention put together ("Reformer: The Efficient Transformer", Kitaev, Kaiser,
// Levskaya, 2020):
//
//   y = Σ_r w_r o_r,   w = softmax_r(lse_r)
//
// for each position and head, and back:   do_r = w_r dy,   d_lse_r = w_r (dy·o_r − Σ_s w_s dy·o_s). Forward
// reads R·T·H·P elements and writes T·H·P; backward reads (R + 1)·T·H·P and writes R·T·H·P. Only the input is
// kept.
#pragma once
#include <torch/types.h>

namespace lra {

// out: [T, R·H, P] in bfloat16, float or double; lse: [T, R·H], float, or double where `out` is → [T, H, P]
torch::Tensor combine_rounds(const torch::Tensor& out, const torch::Tensor& lse, int64_t rounds);

// By tensor operations, in double precision the definition.
torch::Tensor combine_rounds_reference(const torch::Tensor& out, const torch::Tensor& lse, int64_t rounds);

}  // namespace lra
