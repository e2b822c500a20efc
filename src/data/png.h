// Gray images as PNG.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lra {

struct GrayImage {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // row-major, width · height

  bool operator==(const GrayImage&) const = default;
};

// Pixels are taken as stored, without any gamma. 8-bit gray comes out bit for bit; 1, 2 and 4 bits are
// stretched to 0…255, 16 bits keep the upper byte; colours and palettes become
// (19595 R + 38470 G + 7471 B + 32768) >> 16, which leaves grays as they are. Transparency is refused, and
// so is an image wider or higher than `largest_side`, before memory is asked for. Errors name `place`.
GrayImage read_png(std::string_view bytes, std::string_view place, int64_t largest_side);

std::string png_bytes(const GrayImage& image);
void write_png(const fs::path& path, const GrayImage& image);  // atomic

}  // namespace lra
