#include "train/schedule.h"

#include <cmath>
#include <numbers>

namespace lra {

double Schedule::at(int64_t step) const {
  const auto s = static_cast<double>(step), w = static_cast<double>(warmup);
  const double ramp = warmup > 0 ? std::min(1.0, s / w) : 1.0;
  if (kind == "rsqrt") return base * ramp / std::sqrt(std::max({s, w, 1.0}));
  if (kind == "cosine") {
    const double cycles = std::max(0.0, s - w) / static_cast<double>(steps);
    return base * ramp * 0.5 * (1 + std::cos(std::numbers::pi * (cycles - std::floor(cycles))));
  }
  return base * ramp;
}

torch::Tensor Schedule::at(const torch::Tensor& step) const {
  const auto w = static_cast<double>(warmup);
  const torch::Tensor s = step.to(torch::kDouble);
  torch::Tensor rate = warmup > 0 ? base * (s / w).clamp_max(1.0) : torch::full_like(s, base);
  if (kind == "rsqrt") rate = rate / s.clamp_min(std::max(w, 1.0)).sqrt();
  if (kind == "cosine") {
    const torch::Tensor cycles = (s - w).clamp_min(0.0) / static_cast<double>(steps);
    rate = rate * (0.5 * (1 + torch::cos(std::numbers::pi * cycles.frac())));
  }
  return rate.to(torch::kFloat);
}

}  // namespace lra
