#pragma once
#include "kernels/adamw/adamw_arguments.h"

namespace lra {
// Σ g², in double.
double adamw_squares_cpu(const float* g, int64_t n);
double adamw_squares_cpu(const double* g, int64_t n);

// Elements begin … end − 1 of the buffers in `a`.
void adamw_update_float_cpu(const AdamWArguments& a, int64_t begin, int64_t end);
void adamw_update_double_cpu(const AdamWArguments& a, int64_t begin, int64_t end);
}  // namespace lra
