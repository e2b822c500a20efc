#include "tasks/pathfinder_angle.h"

#include <cmath>

namespace lra::pathfinder {
namespace {

// Taylor series from the smallest term; for |x| <= pi/4 what is left out is below 1e-19.
Direction small_angle(double x) {
  const double square = x * x;
  double sin = 1, cos = 1;
  for (int n = 18; n >= 2; n -= 2) {
    sin = 1 - square / (n * (n + 1)) * sin;
    cos = 1 - square / (n * (n - 1)) * cos;
  }
  return {x * sin, cos};
}

Direction turned(Direction d, int quarters) {
  switch (quarters & 3) {
    case 0:
      return d;
    case 1:
      return {d.cos, -d.sin};
    case 2:
      return {-d.sin, -d.cos};
    default:
      return {-d.cos, d.sin};
  }
}

// atan for 0 <= t <= 1: two half-angle steps, atan t = 2 atan(t / (1 + sqrt(1 + t²))), bring t below 0.2;
// then the series t - t³/3 + t⁵/5 - …
double arc_tangent(double t) {
  for (int step = 0; step < 2; ++step) t = t / (1 + std::sqrt(1 + t * t));
  const double square = t * t;
  double sum = 0;
  for (int n = 27; n >= 1; n -= 2) sum = 1.0 / n - square * sum;
  return 4 * t * sum;
}

}  // namespace

Direction direction(double radians) {
  const double quarters = std::floor(radians / (kPi / 2) + 0.5);
  return turned(small_angle(radians - quarters * (kPi / 2)), static_cast<int>(quarters));
}

Direction direction_of_degrees(int degrees) {
  const int quarters = static_cast<int>(std::floor(degrees / 90.0 + 0.5));
  return turned(small_angle((degrees - 90 * quarters) * (kPi / 180)), quarters);
}

double angle_of(int dy, int dx) {
  const double y = std::abs(dy), x = std::abs(dx);
  double angle = y <= x ? arc_tangent(y / x) : kPi / 2 - arc_tangent(x / y);
  if (dx < 0) angle = kPi - angle;
  return dy < 0 ? -angle : angle;
}

}  // namespace lra::pathfinder
