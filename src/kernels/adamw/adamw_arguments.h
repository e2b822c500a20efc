// What the kernels are given, and the part of a step that is a handful of scalars: the same code on CPU and
// GPU.
#pragma once
#include <cfloat>

#include "base/cuda_launch.h"
#include "kernels/adamw/learning_rate.h"

namespace lra {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, weight_decay = 0.1;
  double clip = 0;  // global norm; 0 for none
  ScheduleNumbers schedule;
  int64_t decayed_end = 0;      // elements before it decay
  bool zero_gradients = false;  // leave zeros where gradients were read, so that the next step need not
};

// What the update of every element shares; lives in the scratch buffer between the launches.
struct AdamWScalars {
  double stopped;  // 1: parameters and moments stay as they are
  double factor;   // of the gradient, by clipping
  double decay;    // lr · weight decay
  double move;     // lr / (1 − β1^t)
  double root;     // 1 / √(1 − β2^t)
};

// Sums of squares of parts of the gradient. Their number depends on nothing but n, so the norm has the same
// bits in every run and for any number of threads; it fills 132 multiprocessors with 2048 threads each.
inline constexpr int64_t kAdamWPartials = 1056;

struct AdamWArguments {
  void *parameters, *gradients, *first, *second;  // [n]
  void* working;                                  // bfloat16 [n] or null
  int64_t n;
  int element;  // bytes: 4 float, 8 double
  int64_t *step, *bad_step;
  double* sums;
  AdamWScalars* scalars;
  double* partials;  // [kAdamWPartials]
  const void* loss_sum;
  int loss_element;  // bytes: 2 bfloat16, 4 float, 8 double
  const int64_t* correct;
  int64_t rows;
  AdamWOptions options;
};
extern CudaLauncher<AdamWArguments> adamw_cuda;

// Everything between the norm and the update. `squares` is the sum of squares of the gradient.
LRA_HOST_DEVICE inline void adamw_scalars(const AdamWArguments& a, double squares, double loss) {
  const AdamWOptions& o = a.options;
  const int64_t step = *a.step;
  const double norm = std::sqrt(squares);
  // Squares that overflow the type of the second moment would end there as infinity. False for NaN, too.
  const bool finite = squares <= (a.element == 8 ? DBL_MAX : FLT_MAX) && std::isfinite(loss);
  if (!finite && *a.bad_step < 0) *a.bad_step = step;

  const auto t = static_cast<double>(step + 1);
  const double rate = learning_rate(o.schedule, step), clip = o.clip / (norm + 1e-6);
  a.scalars->stopped = *a.bad_step >= 0;
  a.scalars->factor = o.clip > 0 && clip < 1 ? clip : 1;
  a.scalars->decay = rate * o.weight_decay;
  a.scalars->move = rate / (1 - std::pow(o.beta1, t));
  a.scalars->root = 1 / std::sqrt(1 - std::pow(o.beta2, t));

  a.sums[0] += loss;
  a.sums[1] += static_cast<double>(*a.correct);
  a.sums[2] += static_cast<double>(a.rows);
  a.sums[3] += norm;
  *a.step = step + 1;
}

// The update of one element, in the type of the parameters.
template <class T>
struct AdamWElement {
  T beta1, beta2, rest1, rest2, epsilon, factor, decay, move, root;

  LRA_HOST_DEVICE AdamWElement(const AdamWOptions& o, const AdamWScalars& s)
      : beta1(static_cast<T>(o.beta1)),
        beta2(static_cast<T>(o.beta2)),
        rest1(static_cast<T>(1 - o.beta1)),
        rest2(static_cast<T>(1 - o.beta2)),
        epsilon(static_cast<T>(o.epsilon)),
        factor(static_cast<T>(s.factor)),
        decay(static_cast<T>(s.decay)),
        move(static_cast<T>(s.move)),
        root(static_cast<T>(s.root)) {}

  // Inlined always, so that it is compiled along with each clone of a CPU kernel. `decays` is decay or 0.
  __attribute__((always_inline)) LRA_HOST_DEVICE inline void update(T g, T decays, T& p, T& m, T& v) const {
    g *= factor;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    p -= decays * p;
    p -= move * m / (std::sqrt(v) * root + epsilon);
  }
};

}  // namespace lra
