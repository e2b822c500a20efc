// CPU side of dropout: raw pointers only, compiled for several instruction sets (kernels/cpu.h).
#include "kernels/dropout/dropout_cpu.h"

#include "kernels/cpu.h"

namespace lra {
namespace {

constexpr int kBlocks = 16;  // Philox blocks computed side by side

}  // namespace

LRA_CPU_CLONES
void dropout_bits_cpu(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, uint16_t* out) {
  const uint64_t block0 = first / 8;
  const int64_t blocks = (count + 7) / 8;
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
#pragma GCC unroll 1
    for (int i = 0; i < kBlocks; ++i) {
      const uint64_t index = block0 + static_cast<uint64_t>(b + i);
      c0[i] = static_cast<uint32_t>(index);
      c1[i] = static_cast<uint32_t>(index >> 32);
      c2[i] = static_cast<uint32_t>(stream);
      c3[i] = static_cast<uint32_t>(stream >> 32);
    }
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 7; ++round) {
#pragma GCC unroll 1
      for (int i = 0; i < kBlocks; ++i) {
        const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i], p1 = uint64_t{0xCD9E8D57u} * c2[i];
        c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
        c1[i] = static_cast<uint32_t>(p1);
        c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
        c3[i] = static_cast<uint32_t>(p0);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const int64_t here = blocks - b < kBlocks ? blocks - b : kBlocks;
    uint32_t words[kBlocks * 4];
#pragma GCC unroll 1
    for (int i = 0; i < kBlocks; ++i) {
      words[4 * i] = c0[i];
      words[4 * i + 1] = c1[i];
      words[4 * i + 2] = c2[i];
      words[4 * i + 3] = c3[i];
    }
    __builtin_memcpy(out + b * 8, words, static_cast<size_t>(here) * 16);  // little endian: low half first
  }
}

namespace {

template <class T>
LRA_CPU_INLINE void apply(const uint16_t* bits, uint32_t threshold, T scale, const T* in, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = bits[i] >= threshold ? in[i] * scale : T(0);
}

}  // namespace

LRA_CPU_CLONES
void dropout_apply_cpu(const uint16_t* bits, DropoutRate rate, const float* in, float* out, int64_t n) {
  apply(bits, rate.threshold, rate.scale, in, out, n);
}
LRA_CPU_CLONES
void dropout_apply_cpu(const uint16_t* bits, DropoutRate rate, const double* in, double* out, int64_t n) {
  apply(bits, rate.threshold, static_cast<double>(rate.scale), in, out, n);
}

}  // namespace lra
