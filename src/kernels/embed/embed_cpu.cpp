// CPU side of the embedding (embed.h): raw pointers, see kernels/cpu.h.
#include "kernels/embed/embed_cpu.h"

#include "kernels/cpu.h"
#include "kernels/dropout/dropout_cpu.h"

namespace lra {
namespace {

template <class T>
LRA_CPU_INLINE void forward(const T* __restrict token, const T* __restrict position, T* __restrict out,
                            int64_t n, const uint16_t* __restrict bits, DropoutRate rate) {
  if (position) {
    for (int64_t i = 0; i < n; ++i) out[i] = token[i] + position[i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = token[i];
  }
  if (!bits) return;
  for (int64_t i = 0; i < n; ++i) out[i] *= keep<T>(bits, i, rate);
}

template <class T>
LRA_CPU_INLINE void backward(const T* __restrict dy, T* __restrict sum, int64_t n,
                             const uint16_t* __restrict bits, DropoutRate rate) {
  if (bits) {
    for (int64_t i = 0; i < n; ++i) sum[i] += dy[i] * keep<T>(bits, i, rate);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] += dy[i];
  }
}

}  // namespace

LRA_CPU_CLONES void embed_forward_cpu(const float* token, const float* position, float* out, int64_t n,
                                      const uint16_t* bits, DropoutRate rate) {
  forward(token, position, out, n, bits, rate);
}
LRA_CPU_CLONES void embed_forward_cpu(const double* token, const double* position, double* out, int64_t n,
                                      const uint16_t* bits, DropoutRate rate) {
  forward(token, position, out, n, bits, rate);
}
LRA_CPU_CLONES void embed_backward_cpu(const float* dy, float* sum, int64_t n, const uint16_t* bits,
                                       DropoutRate rate) {
  backward(dy, sum, n, bits, rate);
}
LRA_CPU_CLONES void embed_backward_cpu(const double* dy, double* sum, int64_t n, const uint16_t* bits,
                                       DropoutRate rate) {
  backward(dy, sum, n, bits, rate);
}

}  // namespace lra
