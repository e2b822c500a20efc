// How large the buffers are that micro-batches of packed rows are put into: one of a few sizes, so that one
// captured step serves many batches. What the rows leave of a buffer is cut into tail rows, which belong to
// no example and are short, so that attention over them costs nothing.
#pragma once
#include "batch/loader.h"

namespace lra {

struct Tail {
  int64_t rows, row_length;
};

class BufferSizes {
 public:
  BufferSizes(const Dataset& data, const LoaderOptions& options);

  // Of the rows of one document, CLS included.
  int64_t shortest(bool second) const { return documents_[second].shortest; }
  int64_t longest(bool second) const { return documents_[second].longest; }
  bool fixed(bool second) const { return shortest(second) == longest(second); }

  // For rows that take `filled` positions; just that where all rows have one length.
  int64_t capacity(int64_t filled, bool second) const;
  // Enough for what any `rows` rows leave of a buffer of that capacity.
  Tail tail(int64_t rows, int64_t capacity, bool second) const;

  // Sizes are multiples of this: at most `sizes` of them up to the largest.
  static int64_t step(int64_t largest, int64_t sizes);

 private:
  struct Document {
    int64_t shortest = 0, longest = 0, step = 0;
  };
  Document documents_[2];
};

}  // namespace lra
