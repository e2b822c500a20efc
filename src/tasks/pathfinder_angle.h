// Sines, cosines and angles from + - * / and the square root alone, which IEEE arithmetic rounds exactly: the
// same bits with every C library. (Those of the libraries differ in the last bit, and a rounding or a random
// draw may turn on it.) Correct to a few units in the last place; used for tables, not in inner loops.
#pragma once

namespace lra::pathfinder {

inline constexpr double kPi = 3.14159265358979323846;

struct Direction {
  double sin = 0, cos = 1;
};

Direction direction(double radians);          // |radians| up to about 100
Direction direction_of_degrees(int degrees);  // exact at multiples of 90
double angle_of(int dy, int dx);              // atan2: in (-pi, pi]; not both zero

}  // namespace lra::pathfinder
