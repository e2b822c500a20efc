#pragma once
#include "kernels/cpu.h"
#include "kernels/dropout/bits.h"

namespace lra {

// out[i] = kept(bits[i]) ? in[i]·scale : 0; in and out may be the same.
void dropout_apply_cpu(const uint16_t* bits, DropoutRate rate, const float* in, float* out, int64_t n);
void dropout_apply_cpu(const uint16_t* bits, DropoutRate rate, const double* in, double* out, int64_t n);

// What element i is multiplied with.
template <class T>
LRA_CPU_INLINE T keep(const uint16_t* bits, int64_t i, DropoutRate rate) {
  return bits[i] >= rate.threshold ? static_cast<T>(rate.scale) : T(0);
}

}  // namespace lra
