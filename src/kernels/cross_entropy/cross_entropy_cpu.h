#pragma once
#include "kernels/cross_entropy/cross_entropy_arguments.h"

namespace lra {
void cross_entropy_cpu(const CrossEntropyArguments& a);
}  // namespace lra
