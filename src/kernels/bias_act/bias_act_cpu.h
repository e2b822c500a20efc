#pragma once
#include "kernels/bias_act/bias_act_arguments.h"

namespace lra {
// Rows begin … end − 1; float or double, by a.element.
void bias_act_forward_cpu(const BiasActForwardArguments& a, int64_t begin, int64_t end);
// Adds these rows' gradient of the bias to sums [F]; of `a` partial is not looked at.
void bias_act_backward_cpu(const BiasActBackwardArguments& a, int64_t begin, int64_t end, void* sums);
}  // namespace lra
