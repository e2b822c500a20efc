// Learning-rate schedules, evaluated where the update is: by the host or inside a kernel. s counts updates
// from 0.
//
//   constant:  c · min(1, s/w)
//   rsqrt:     c · min(1, s/w) / √max(s, w, 1)
//   cosine:    c · min(1, s/w) · ½(1 + cos(π · frac(max(0, s−w)/T)))      T = all steps
#pragma once
#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace lra {

struct ScheduleNumbers {
  int kind = 0;  // 0 constant, 1 rsqrt, 2 cosine
  double base = 0;
  int64_t warmup = 0, steps = 0;
};

LRA_HOST_DEVICE inline double learning_rate(const ScheduleNumbers& schedule, int64_t step) {
  const auto s = static_cast<double>(step), w = static_cast<double>(schedule.warmup);
  const double rate = schedule.base * (s < w ? s / w : 1.0);
  if (schedule.kind == 1) {
    const double later = s > w ? s : w;
    return rate / std::sqrt(later > 1.0 ? later : 1.0);
  }
  if (schedule.kind == 2) {
    constexpr double kPi = 3.14159265358979323846;
    const double cycles = (s > w ? s - w : 0.0) / static_cast<double>(schedule.steps);
    return rate * 0.5 * (1.0 + std::cos(kPi * (cycles - std::floor(cycles))));
  }
  return rate;
}

}  // namespace lra
