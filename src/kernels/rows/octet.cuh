// What a thread of a row-wise kernel holds: 8 neighbouring elements of a row. That is 16 bytes of bfloat16,
// one memory transaction, and what one Philox block of dropout draws for (dropout/bits.h).
#pragma once
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/dropout/bits.h"
#include "kernels/rows/instructions.cuh"

namespace lra {

// Parameters, sums and statistics: float for activations in bfloat16 and float, double for double.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline constexpr int kOctet = 8;

// As 32-bit words: a register each. (An array of bfloat16 would be spread over 16-bit halves of twice as
// many.)
template <class T>
struct Octet {
  uint32_t words[2 * sizeof(T)];
};

// Elements column … column + 7 of a row; 0 beyond its width. kAligned: the row begins on 16 bytes and its
// width is a multiple of 8.
template <bool kAligned, class T>
__device__ inline Octet<T> load_octet(const T* row, int column, int width) {
  Octet<T> octet = {};
  if constexpr (kAligned) {
    const auto* source = reinterpret_cast<const uint4*>(row + column);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
      const uint4 quad = column < width ? source[i] : make_uint4(0, 0, 0, 0);
      octet.words[4 * i] = quad.x;
      octet.words[4 * i + 1] = quad.y;
      octet.words[4 * i + 2] = quad.z;
      octet.words[4 * i + 3] = quad.w;
    }
  } else if constexpr (sizeof(T) == 2) {
    const auto* source = reinterpret_cast<const uint16_t*>(row);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const uint32_t half = column + i < width ? source[column + i] : 0;
      octet.words[i / 2] |= half << (16 * (i % 2));
    }
  } else {
    constexpr int kWords = sizeof(T) / 4;
    const auto* source = reinterpret_cast<const uint32_t*>(row);
#pragma unroll
    for (int i = 0; i < kOctet * kWords; ++i) {
      octet.words[i] = column + i / kWords < width ? source[column * kWords + i] : 0;
    }
  }
  return octet;
}

template <bool kAligned, class T>
__device__ inline void store_octet(T* row, int column, int width, const Octet<T>& octet) {
  const auto& words = octet.words;
  if constexpr (kAligned) {
    auto* target = reinterpret_cast<uint4*>(row + column);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
      if (column < width) {
        target[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
      }
    }
  } else if constexpr (sizeof(T) == 2) {
    auto* target = reinterpret_cast<uint16_t*>(row);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (column + i < width) target[column + i] = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
    }
  } else {
    constexpr int kWords = sizeof(T) / 4;
    auto* target = reinterpret_cast<uint32_t*>(row);
#pragma unroll
    for (int i = 0; i < kOctet * kWords; ++i) {
      if (column + i / kWords < width) target[column * kWords + i] = words[i];
    }
  }
}

// Of an aligned row that nobody writes to while the kernel runs; wherever its address comes from.
template <class T>
__device__ inline Octet<T> load_octet_constant(const T* at) {
  Octet<T> octet;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    const uint4 quad = __ldg(reinterpret_cast<const uint4*>(at) + i);
    octet.words[4 * i] = quad.x;
    octet.words[4 * i + 1] = quad.y;
    octet.words[4 * i + 2] = quad.z;
    octet.words[4 * i + 3] = quad.w;
  }
  return octet;
}
// To an aligned row, for what is not needed again soon: it drives nothing out of the first cache.
template <class T>
__device__ inline void store_octet_once(T* at, const Octet<T>& octet) {
  const auto& words = octet.words;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    __stcs(reinterpret_cast<uint4*>(at) + i,
           make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]));
  }
}

template <class T>
__device__ inline void widen(const Octet<T>& octet, Accumulator<T> (&values)[kOctet]) {
  const auto& words = octet.words;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if constexpr (sizeof(T) == 2) {  // a bfloat16 is the upper half of a float
      values[i] = __uint_as_float(i % 2 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16);
    } else if constexpr (sizeof(T) == 4) {
      values[i] = __uint_as_float(words[i]);
    } else {
      values[i] = __hiloint2double(static_cast<int>(words[2 * i + 1]), static_cast<int>(words[2 * i]));
    }
  }
}

template <class T>
__device__ inline Octet<T> narrow(const Accumulator<T> (&values)[kOctet]) {
  Octet<T> octet;
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int i = 0; i < kOctet / 2; ++i) {
      const auto pair = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
      memcpy(&octet.words[i], &pair, sizeof(pair));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if constexpr (sizeof(T) == 4) {
        octet.words[i] = __float_as_uint(values[i]);
      } else {
        octet.words[2 * i] = static_cast<uint32_t>(__double2loint(values[i]));
        octet.words[2 * i + 1] = static_cast<uint32_t>(__double2hiint(values[i]));
      }
    }
  }
  return octet;
}

// Parameters [width] are read element by element: they are views into one flat buffer, on no particular
// boundary.
template <class A>
__device__ inline void load_parameter(const void* parameter, int column, int width, A (&values)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    values[i] = parameter && column + i < width ? static_cast<const A*>(parameter)[column + i] : A(0);
  }
}

// The keys of Philox's rounds. A kernel that is given them as an argument reads them where it uses them, from
// constant memory: neither instructions nor registers.
struct DropoutKeys {
  uint32_t first[7], second[7];
};
LRA_HOST_DEVICE inline DropoutKeys dropout_keys(const DropoutDraw& draw) {
  DropoutKeys keys;
  for (uint32_t round = 0; round < 7; ++round) {
    keys.first[round] = static_cast<uint32_t>(draw.seed) + round * 0x9E3779B9u;
    keys.second[round] = static_cast<uint32_t>(draw.seed >> 32) + round * 0xBB67AE85u;
  }
  return keys;
}

// dropout_block() of dropout/bits.h, the same bits.
__device__ inline PhiloxBlock draw_block(const DropoutKeys& keys, uint64_t stream, uint64_t index) {
  auto c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  auto c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const WideProduct first = multiply_wide(c0, kPhiloxFirst), second = multiply_wide(c2, kPhiloxSecond);
    c0 = second.high ^ c1 ^ keys.first[round];
    c1 = second.low;
    c2 = first.high ^ c3 ^ keys.second[round];
    c3 = first.low;
  }
  return {{c0, c1, c2, c3}};
}

// The random words of the octet at `column`.
__device__ inline PhiloxBlock draw_octet(const DropoutKeys& keys, uint64_t stream, int64_t slot, int column,
                                         int width) {
  // (dropout_position(slot, width) + column) / 8
  const auto blocks = static_cast<uint32_t>(width + kOctet - 1) / kOctet,
             here = static_cast<uint32_t>(column) / kOctet;
  return draw_block(keys, stream, static_cast<uint64_t>(slot) * blocks + here);
}

// dropout_bits(block, i) >= threshold, compared in the upper half of a word: what is below does not matter.
// The threshold is over 0.
__device__ inline bool kept(const PhiloxBlock& block, int i, DropoutRate rate) {
  const uint32_t word = block.word[i / 2];
  return (i % 2 ? word : word << 16) > (rate.threshold << 16) - 1;
}

// Kept elements are multiplied by the rate's scale, others become 0.
template <class A>
__device__ inline void drop_out(const PhiloxBlock& block, DropoutRate rate, A (&values)[kOctet]) {
  const A scale = static_cast<A>(rate.scale);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) values[i] = kept(block, i, rate) ? values[i] * scale : A(0);
}

template <class A>
__device__ inline void drop_out(const DropoutDraw& draw, uint64_t stream, int64_t slot, int column, int width,
                                A (&values)[kOctet]) {
  drop_out(draw_octet(dropout_keys(draw), stream, slot, column, width), draw.rate, values);
}

// 16-byte accesses can be used on all of these tensors [T, width].
template <class... Pointers>
bool all_aligned(int64_t width, const Pointers*... pointers) {
  return width % kOctet == 0 && (... && (reinterpret_cast<uintptr_t>(pointers) % 16 == 0));
}

// Blocks for kernels whose blocks loop over rows with the grid's stride: one turn each while the device still
// has room for more blocks, then up to `turns`, so that parameters are read seldom but no block outlasts the
// others.
inline unsigned looping_blocks(int64_t single_turn_blocks, int64_t turns) {
  constexpr int64_t kRoom = 1056;
  const int64_t few = single_turn_blocks < kRoom ? single_turn_blocks : kRoom;
  const int64_t many = (single_turn_blocks + turns - 1) / turns;
  return static_cast<unsigned>(few > many ? few : many);
}

// Blocks of a kernel that the device holds at a time: for kernels that start one for each of these places and
// let it loop, where it costs to begin.
template <class Kernel>
int64_t resident_blocks(Kernel* kernel, int threads) {
  int device = 0, multiprocessors = 1, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  return int64_t{multiprocessors} * (blocks > 0 ? blocks : 1);
}

}  // namespace lra
