#pragma once
#include "kernels/dropout/bits.h"

namespace lra {
// One position of width n. `bits` is null for no dropout, `position` for none.
void embed_forward_cpu(const float* token, const float* position, float* out, int64_t n, const uint16_t* bits,
                       DropoutRate rate);
void embed_forward_cpu(const double* token, const double* position, double* out, int64_t n,
                       const uint16_t* bits, DropoutRate rate);
// sum += dropout(dy)
void embed_backward_cpu(const float* dy, float* sum, int64_t n, const uint16_t* bits, DropoutRate rate);
void embed_backward_cpu(const double* dy, double* sum, int64_t n, const uint16_t* bits, DropoutRate rate);
}  // namespace lra
