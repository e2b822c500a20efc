// Gray images in a terminal.
#pragma once
#include <string>

#include "data/png.h"

namespace lra {

// With `colour`, two pixels a character as coloured half blocks; else characters of rising density, which any
// terminal and file can show. Small images are drawn two characters wide a pixel, so that squares are square.
std::string draw_image(const GrayImage& image, bool colour);

}  // namespace lra
