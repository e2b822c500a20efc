// Queries that are their own keys ("Reformer: The Efficient Transformer", Kitaev, Kaiser, Levskaya, 2020):
//
//   [q, k, v] from [q, v],   k = q·s,   s = (Σ q² + 10⁻⁶)^−½      or   k = q
//
// and back:   dq += (dk − k (k·dk)) s    or    dq += dk.   Only the result is kept, which attention keeps
// anyway. Forward reads 2 T·H·P elements and writes 3; backward reads 4 and writes 2.
#pragma once
#include <torch/types.h>

namespace lra {

// qv: [T, 2, H, P] in bfloat16, float or double → [T, 3, H, P]; unit: keys of length 1.
torch::Tensor shared_keys(const torch::Tensor& qv, bool unit);

// From the definition.
torch::Tensor shared_keys_reference(const torch::Tensor& qv, bool unit);

}  // namespace lra
