// Learning-rate schedules by name; the optimiser's kernel evaluates them on the device (kernels/adamw). s
// counts updates from 0.
//
//   rsqrt:     c · min(1, s/w) / √max(s, w)
//   cosine:    c · min(1, s/w) · ½(1 + cos(π · frac(max(0, s−w)/T)))      T = all steps
//   constant:  c · min(1, s/w)
//
// With a warm-up the rate is 0 at the first step, as in the arena's code.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/adamw/learning_rate.h"

namespace lra {

struct Schedule {
  std::string kind = "rsqrt";
  double base = 0.05;
  int64_t warmup = 1000, steps = 5000;

  ScheduleNumbers numbers() const;  // for the kernel
  double at(int64_t step) const { return learning_rate(numbers(), step); }
};

}  // namespace lra
