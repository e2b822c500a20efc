// What tasks of square gray images share: ids are pixel values, row by row.
#pragma once
#include <cmath>

#include "data/dataset.h"
#include "data/png.h"

namespace lra {

inline int64_t side_of(const Dataset& data) {
  return static_cast<int64_t>(std::sqrt(static_cast<double>(data.info().max_length)) + 0.5);
}

// Pixels that were left out as padding are black.
inline GrayImage picture_of(const Dataset& data, int64_t index) {
  const int64_t side = side_of(data);
  const Tokens tokens = data.tokens(index);
  const Tokens places = data.has_places() ? data.places(index) : Tokens();
  GrayImage image{side, side, std::vector<uint8_t>(static_cast<size_t>(side * side))};
  for (int64_t t = 0; t < tokens.size(); ++t) {
    const int64_t at = data.has_places() ? places[t] : t;
    if (at < side * side) image.pixels[static_cast<size_t>(at)] = static_cast<uint8_t>(tokens[t]);
  }
  return image;
}

// Mean, deviation and the share of pixels that are not 0, over a split.
struct PixelMoments {
  double mean = 0, deviation = 0, not_zero = 0;
};
inline PixelMoments pixel_moments(const Dataset& data) {
  double sum = 0, squares = 0, filled = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    int64_t one = 0, two = 0, not_zero = 0;
    for (const int64_t value : picture_of(data, i).pixels) {
      one += value, two += value * value, not_zero += value > 0 ? 1 : 0;
    }
    sum += static_cast<double>(one), squares += static_cast<double>(two);
    filled += static_cast<double>(not_zero);
  }
  const auto n = static_cast<double>(std::max<int64_t>(data.size() * side_of(data) * side_of(data), 1));
  const double mean = sum / n;
  return {mean, std::sqrt(std::max(0.0, squares / n - mean * mean)), filled / n};
}

}  // namespace lra
