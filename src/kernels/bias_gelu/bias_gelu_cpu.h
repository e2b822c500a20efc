#pragma once
#include "kernels/dropout/bits.h"

namespace lra {
// One row of n; `bits` is null for no dropout.
void bias_gelu_forward_cpu(const float* x, const float* bias, float* y, int64_t n, const uint16_t* bits,
                           DropoutRate rate);
void bias_gelu_forward_cpu(const double* x, const double* bias, double* y, int64_t n, const uint16_t* bits,
                           DropoutRate rate);
// Overwrites dx and adds to d_bias.
void bias_gelu_backward_cpu(const float* x, const float* bias, const float* dy, float* dx, float* d_bias,
                            int64_t n, const uint16_t* bits, DropoutRate rate);
void bias_gelu_backward_cpu(const double* x, const double* bias, const double* dy, double* dx, double* d_bias,
                            int64_t n, const uint16_t* bits, DropoutRate rate);
}  // namespace lra
