// Philox4x32-10, the counter-based generator of "Parallel Random Numbers: As Easy as 1, 2, 3" (Salmon et al.,
// 2011).
//
// Every random number of this project is a pure function of (seed, stream, index): the same bits on every
// machine, for any number of threads, on CPU and GPU, and nothing to store for a resume. It equals
// at::Philox4_32 (a test says so); it is written out here because CUDA sources stay free of torch headers.
//
//   Rng rng(seed, stream_id("listops.tree"), i);   // the i-th independent sequence of this stream
//   rng.below(10); rng.uniform();
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#ifdef __CUDACC__
#define LRA_HOST_DEVICE __host__ __device__
#else
#define LRA_HOST_DEVICE
#endif

namespace lra {

struct PhiloxBlock {
  uint32_t word[4];
};

// key = seed; the 128-bit counter is (index, stream): 4 random words for each. Ten rounds are the authors'
// choice with a margin; seven are the fewest that pass their tests (BigCrush).
inline constexpr uint32_t kPhiloxFirst = 0xD2511F53u, kPhiloxSecond = 0xCD9E8D57u;
template <int kRounds = 10>
LRA_HOST_DEVICE inline PhiloxBlock philox(uint64_t seed, uint64_t stream, uint64_t index) {
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  auto c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  auto c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxFirst} * c0, p1 = uint64_t{kPhiloxSecond} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// A stream's number from its name (FNV-1a), so that no two purposes share random numbers by accident.
constexpr uint64_t stream_id(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return h;
}

// A sequence of random numbers: `sequence` selects one of 2^32 independent ones in a stream.
class Rng {
 public:
  Rng(uint64_t seed, uint64_t stream, uint64_t sequence = 0)
      : seed_(seed), stream_(stream), index_(sequence << 32) {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = philox(seed_, stream_, index_++);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  // Uniform on 0 … n-1, without bias (Lemire's multiplication with rejection).
  uint32_t below(uint32_t n) {
    uint64_t m = uint64_t{next()} * n;
    if (static_cast<uint32_t>(m) < n) {
      const uint32_t threshold = (0u - n) % n;
      while (static_cast<uint32_t>(m) < threshold) m = uint64_t{next()} * n;
    }
    return static_cast<uint32_t>(m >> 32);
  }
  // Uniform on [0, 1) with 53 bits.
  double uniform() {
    const uint64_t high = next() >> 5, low = next() >> 6;
    return static_cast<double>(high * 67108864 + low) * (1.0 / 9007199254740992.0);
  }

 private:
  uint64_t seed_, stream_, index_;
  PhiloxBlock block_{};
  int used_ = 4;
};

// A pseudo-random permutation of 0 … n-1 that needs no table: a four-round Feistel network on the next even
// power of two, walked until it falls inside. `permuted(i)` for i = 0 … n-1 visits every number once; CPU and
// GPU agree.
LRA_HOST_DEVICE inline uint64_t permuted(uint64_t i, uint64_t n, uint64_t seed, uint64_t stream) {
  int half = 1;
  while ((uint64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const PhiloxBlock b = philox(seed, stream, (round << 56) | right);
      const uint64_t next = left ^ (((uint64_t{b.word[1]} << 32) | b.word[0]) & mask);
      left = right;
      right = next;
    }
    i = (left << half) | right;
  } while (i >= n);
  return i;
}

}  // namespace lra
