// Image (CIFAR-10 in gray): which of ten things does a picture show, read pixel by pixel? This header is what
// the files of the task share:
//
//   image_import    CIFAR-10 as its owners publish it, binary and Python version
//   image_generate  small made-up textures, for tests and the demo
//   image           the task itself
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace lra::image {

inline constexpr int64_t kClasses = 10, kPublishedSide = 32;

struct Options : TaskOptions {
  std::string gray = "tf";
  int64_t side = kPublishedSide;
  bool drop_remainder = false, zero_is_pad = false;

  void visit(Fields& f) override {
    f.choice("gray", gray, {"tf", "pil"},
             "gray value of a colour: tf as the arena (TensorFlow's rgb_to_grayscale), pil as most PyTorch "
             "code (equal or one higher)");
    f.integer("side", side, 4, kPublishedSide,
              "pixels of a side; 16, 8 and 4 are means over squares of the published 32");
    f.flag("drop_remainder", drop_remainder,
           "cut val and test to whole batches of 256 images, as the released code evaluates them");
    f.flag(
        "zero_is_pad", zero_is_pad,
        "leave black pixels out of the row, as the released code masks them; the others keep their places");
  }
};
inline constexpr int64_t kBatch = 256;  // of the released code

// g = trunc((0.2989 R + 0.5870 G + 0.1140 B) / 255 · 255.5) in float32, as TensorFlow 2 computes it.
uint8_t gray_tf(uint8_t r, uint8_t g, uint8_t b);
// (19595 R + 38470 G + 7471 B + 32768) >> 16, as Pillow's mode "L".
uint8_t gray_pil(uint8_t r, uint8_t g, uint8_t b);

// cifar-10-binary.tar.gz, cifar-10-python.tar.gz, or the folder of either.
Json import_published(const Options& options, const fs::path& from, DataSink& out);

// Made-up textures: image i of a split is a pure function of (seed, its number).
Json generate(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& out);

}  // namespace lra::image
