// CPU side of the loss (cross_entropy.h): raw pointers, see kernels/cpu.h. A batch's logits are few; one
// thread.
#include "kernels/cross_entropy/cross_entropy_cpu.h"

#include <cmath>

#include "kernels/cpu.h"

namespace lra {
namespace {

// Index of the first maximum.
template <class T>
int64_t largest(const T* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) best = x[i] > x[best] ? i : best;
  return best;
}

template <class T>
void run(const CrossEntropyArguments& a) {
  double loss = 0;
  int64_t correct = 0;
  for (int64_t b = 0; b < a.B; ++b) {
    const T* x = static_cast<const T*>(a.logits) + b * a.C;
    const int64_t label = a.labels[b], best = largest(x, a.C);
    const T most = x[best];
    T sum = 0;
    for (int64_t i = 0; i < a.C; ++i) sum += std::exp(x[i] - most);
    // cppcheck-suppress invalidFunctionArg ; one term of the sum is 1
    loss += static_cast<double>(std::log(sum) - (x[label] - most));
    correct += best == label && !std::isnan(sum);
    if (!a.gradient) continue;
    T* d = static_cast<T*>(a.gradient) + b * a.C;
    for (int64_t i = 0; i < a.C; ++i) {
      d[i] = static_cast<T>(a.scale) * (std::exp(x[i] - most) / sum - (i == label ? T(1) : T(0)));
    }
  }
  *static_cast<T*>(a.loss) = static_cast<T>(loss);
  *a.correct = correct;
}

}  // namespace

void cross_entropy_cpu(const CrossEntropyArguments& a) { a.element == 8 ? run<double>(a) : run<float>(a); }

}  // namespace lra
