// Which example stands where in a training run: a pure function, the same on the host and on a device.
#pragma once
#include <cstdint>

#include "base/philox.h"

namespace lra {

inline constexpr uint64_t kExampleOrder = stream_id("batch.order");

// The j-th example of a run over n examples. Epoch after epoch, each a fresh permutation; batches run across
// the end of an epoch. With `frozen` > 0 (the arena's released code on images) examples come in the order of
// the data, over and over, cut into batches of that size, and only the batches are shuffled, among as many as
// an epoch has.
LRA_HOST_DEVICE inline int64_t example_at(int64_t j, int64_t n, uint64_t seed, int64_t frozen = 0) {
  const auto at = static_cast<uint64_t>(j), examples = static_cast<uint64_t>(n);
  if (frozen == 0) {
    return static_cast<int64_t>(permuted(at % examples, examples, seed, kExampleOrder ^ (at / examples)));
  }
  const auto size = static_cast<uint64_t>(frozen), batch = at / size;
  const uint64_t window = examples > size ? examples / size : 1, round = batch / window;
  const uint64_t chosen = round * window + permuted(batch % window, window, seed, kExampleOrder ^ round);
  return static_cast<int64_t>((chosen * size + at % size) % examples);
}

}  // namespace lra
