// What the kernels are given: raw pointers and sizes, so that CUDA sources see no torch header.
#pragma once
#include "kernels/dropout/bits.h"

namespace lra {

struct DropoutArguments {
  const void* in;
  void* out;
  int64_t rows, length, width, first_row;
  uint64_t seed, site;
  const int64_t* step;
  DropoutRate rate;
  int element;  // bytes: 2 bfloat16, 4 float, 8 double
};

void dropout_launch(const DropoutArguments& arguments, void* stream);

}  // namespace lra
