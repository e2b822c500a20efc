#pragma once
#include "kernels/add_norm/add_norm_arguments.h"

namespace lra {
// Rows begin … end − 1; float or double, by a.element.
void add_norm_forward_cpu(const AddNormForwardArguments& a, int64_t begin, int64_t end);
// Adds these rows' gradients of weight, offset and bias to sums [3, D]; of `a` partial is not looked
// at.
void add_norm_backward_cpu(const AddNormBackwardArguments& a, int64_t begin, int64_t end, void* sums);
}  // namespace lra
