#include "train/schedule.h"

namespace lra {

ScheduleNumbers Schedule::numbers() const {
  return {kind == "rsqrt" ? 1 : kind == "cosine" ? 2 : 0, base, warmup, steps};
}

}  // namespace lra
