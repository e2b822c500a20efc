// Dropout's numbers row by row, for CPU kernels that draw while they work.
#pragma once
#include <vector>

#include "kernels/dropout/bits.h"

namespace lra {

class RowBits {
 public:
  RowBits(const DropoutDraw& draw, int64_t width)
      : draw_(draw),
        width_(width),
        stream_(draw.rate.threshold ? dropout_stream(draw.site, *draw.step) : 0),
        bits_(draw.rate.threshold ? static_cast<size_t>((width + 7) / 8 * 8) : 0) {}

  // [width], valid until the next call; null without dropout.
  const uint16_t* of(int64_t row) {
    if (!draw_.rate.threshold) return nullptr;
    dropout_bits_cpu(draw_.seed, stream_, dropout_position(draw_.slots[row], width_), width_, bits_.data());
    return bits_.data();
  }

 private:
  DropoutDraw draw_;
  int64_t width_;
  uint64_t stream_;
  std::vector<uint16_t> bits_;
};

}  // namespace lra
