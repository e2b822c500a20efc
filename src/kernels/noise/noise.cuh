// The numbers of noise.h in a kernel.
#pragma once
#include "kernels/dropout/bits.h"

namespace lra {

// stream: dropout_stream(site, step)
template <class A>
__device__ inline A uniform_number(uint64_t seed, uint64_t stream, int64_t index) {
  const uint32_t word = philox(seed, stream, static_cast<uint64_t>(index)).word[0];
  return (static_cast<A>(word >> 9) + A(0.5)) * A(1.0 / 8388608.0);
}
template <class A>
__device__ inline A normal_number(uint64_t seed, uint64_t stream, int64_t index) {
  constexpr double kPi = 3.14159265358979323846;
  const A u = uniform_number<A>(seed, stream, 2 * index), v = uniform_number<A>(seed, stream, 2 * index + 1);
  return sqrt(A(-2) * log(u)) * cos(A(2 * kPi) * v);
}

}  // namespace lra
