#include "cli/draw_image.h"

#include <fmt/format.h>

namespace lra {
namespace {

constexpr std::string_view kRamp = " .:-=+*#%@";
constexpr int64_t kSmall = 64;  // pixels a side

int value_at(const GrayImage& image, int64_t y, int64_t x) {
  return y < image.height ? image.pixels[static_cast<size_t>(y * image.width + x)] : 0;
}

}  // namespace

std::string draw_image(const GrayImage& image, bool colour) {
  std::string text;
  const bool small = !colour && image.width <= kSmall;
  for (int64_t y = 0; y < image.height; y += small ? 1 : 2) {
    for (int64_t x = 0; x < image.width; ++x) {
      const int above = value_at(image, y, x), below = value_at(image, y + 1, x);
      if (colour) {
        text += fmt::format("\x1b[38;2;{0};{0};{0}m\x1b[48;2;{1};{1};{1}m▀", above, below);
      } else {
        const int value = small ? above : (above + below) / 2;
        text.append(small ? 2 : 1, kRamp[static_cast<size_t>(value) * kRamp.size() / 256]);
      }
    }
    text += colour ? "\x1b[0m\n" : "\n";
  }
  return text;
}

}  // namespace lra
