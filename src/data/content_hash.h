// A fast 64-bit hash of bytes for finding equal examples. Not cryptographic and never stored: equal hashes
// are a reason to compare the bytes, no more.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lra {

// h <- m ^ (m >> 32) with m = (h ^ word) · odd constant, eight bytes at a time.
inline uint64_t content_hash(std::string_view bytes, uint64_t start = 0) {
  const auto mix = [](uint64_t h) {
    h *= 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 32);
  };
  uint64_t h = mix(start ^ bytes.size() ^ 0xA0761D6478BD642Full);
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    h = mix(h ^ word);
  }
  uint64_t rest = 0;
  if (left > 0) std::memcpy(&rest, at, left);
  return mix(h ^ rest) ^ h;
}

}  // namespace lra
