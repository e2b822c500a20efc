#pragma once
#include <cstdint>

#include "kernels/dropout/bits.h"

namespace lra {

// One (row, head, round). Places count from the row's first; side keys follow the row's own.
template <class T>
struct IntervalHead {
  const T* q;  // queries, q_stride apart
  int64_t q_stride;
  const T *k, *v;  // packed: `width` apart
  T* out;
  int64_t out_stride;
  T* lse;  // lse_stride apart
  int64_t lse_stride;
  int64_t width;
  T scale;
  T self_penalty;        // taken off the score of a query with itself; 0: none
  const int32_t* least;  // [queries], or null
  // dropout: position of weight (i, column 0) is first + i·2^20; rate.threshold 0 for none
  uint64_t seed, stream, first;
  DropoutRate rate;
};

template <class T>
struct IntervalHeadGradient {
  const T* d_out;  // out_stride apart
  const T* d_lse;  // lse_stride apart, or null
  T* d_q;          // q_stride apart; overwritten
  T *d_k, *d_v;    // packed; added to
};

struct IntervalSegment {
  int64_t column, begin, end;
  bool banded, side;
};

// Queries first … last − 1, the segments in the order of their columns.
struct IntervalTile {
  int64_t first, last, low, high;
  const IntervalSegment* segments;
  int count;
};

// Elements of scratch for tiles of so many columns, aligned to 64 bytes.
int64_t interval_scratch(int64_t columns);

void interval_forward_cpu(const IntervalHead<float>& head, const IntervalTile& tile, float* scratch);
void interval_forward_cpu(const IntervalHead<double>& head, const IntervalTile& tile, double* scratch);
void interval_backward_cpu(const IntervalHead<float>& head, const IntervalHeadGradient<float>& gradient,
                           const IntervalTile& tile, float* scratch);
void interval_backward_cpu(const IntervalHead<double>& head, const IntervalHeadGradient<double>& gradient,
                           const IntervalTile& tile, double* scratch);

}  // namespace lra
