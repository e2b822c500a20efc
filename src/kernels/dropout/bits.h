// Which elements dropout keeps, as a pure function of counters: nothing is stored for the backward pass, a
// resumed run repeats itself, and the mask of a row does not depend on how rows are batched, padded or split
// into micro-batches.
//
// An element is named by (site, step) and a 64-bit position. One Philox block gives the 16-bit numbers of 8
// neighbouring positions:  bits(position) = half (position mod 2) of word (position mod 8) / 2 of
// the block philox<7>(seed, site·2^48 + step, position / 8). Element kept  ⇔  bits ≥ threshold
// = 2·round(p·2^15);  kept elements are multiplied by 2^16 / (2^16 − threshold), so the mean is exact. (Even,
// because two numbers in a word are compared at once where the lowest bit of neither matters.)
#pragma once
#include <cstdint>

#include "base/philox.h"

namespace lra {

struct DropoutRate {
  uint32_t threshold;  // of 2^16, even
  float scale;
};

inline DropoutRate dropout_rate(double p) {
  const auto threshold = 2 * static_cast<uint32_t>(p * 32768.0 + 0.5);
  return {threshold, static_cast<float>(65536.0 / (65536.0 - threshold))};
}

LRA_HOST_DEVICE inline uint64_t dropout_stream(uint64_t site, int64_t step) {
  return (site << 48) | static_cast<uint64_t>(step);
}

// Elementwise dropout on positions [T, D]: element d of the position named `slot` (Rows::slots). Every
// position begins a new block.
LRA_HOST_DEVICE inline uint64_t dropout_position(int64_t slot, int64_t width) {
  return static_cast<uint64_t>(slot) * static_cast<uint64_t>((width + 7) / 8 * 8);
}

// Attention weights [B, H, i, j], i and j below 2^20.
LRA_HOST_DEVICE inline uint64_t dropout_attention_position(int64_t row, int64_t heads, int64_t head,
                                                           int64_t i) {
  return static_cast<uint64_t>(((row * heads + head) << 20) + i) << 20;
}

// What a kernel needs to draw: raw pointers, on the device of the data.
struct DropoutDraw {
  DropoutRate rate;  // threshold 0: no dropout, and the rest is not looked at
  uint64_t seed, site;
  const int64_t* step;   // [1]
  const int64_t* slots;  // [T]
};

// The random words of 8 neighbouring positions: seven rounds, because the kernels that draw are else slower
// than memory.
LRA_HOST_DEVICE inline PhiloxBlock dropout_block(uint64_t seed, uint64_t stream, uint64_t index) {
  return philox<7>(seed, stream, index);
}

LRA_HOST_DEVICE inline uint32_t dropout_bits(const PhiloxBlock& block, int lane) {
  return (block.word[lane / 2] >> (16 * (lane % 2))) & 0xffffu;
}

// The numbers of `count` positions from `first` (a multiple of 8) on; writes up to the next multiple of 8.
void dropout_bits_cpu(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, uint16_t* out);

}  // namespace lra
