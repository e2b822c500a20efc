// sources: data/png.cpp base/file.cpp
#include "data/png.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return lra::reads_or_refuses([&] {
    const lra::GrayImage image = lra::read_png(lra::text_of(data, size), "input", 256);
    lra::require(lra::read_png(lra::png_bytes(image), "again", 256) == image,
                 "an image that was written reads back");
  });
}
