// CPU interval attention for one block of queries: see interval_attention.h for the formula, kernels/cpu.h
// for the rules of such files.
#include "kernels/interval_attention/interval_attention_cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/vector_math.h"

namespace lra {
namespace {

int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// Queries at a time: a tile of floats stays within a megabyte.
int64_t tile_rows(int64_t columns) {
  return std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(columns, 1), 16, 128);
}

// Keys that query i sees of a segment, as columns from … to − 1.
struct Range {
  int64_t from, to;
};

template <class T>
LRA_CPU_INLINE Range seen(const IntervalHead<T>& h, const IntervalTile& t, const IntervalSegment& s,
                          int64_t i) {
  const int64_t whole = s.column + s.end - s.begin;
  if (!s.banded) return {s.column, whole};
  int64_t lowest = i + t.low;
  if (h.least) lowest = std::max<int64_t>(lowest, h.least[i]);
  return {std::clamp(s.column + lowest - s.begin, s.column, whole),
          std::clamp(s.column + i + t.high + 1 - s.begin, s.column, whole)};
}

// −∞ wherever query i has no weight; the penalty on its own.
template <class T>
LRA_CPU_INLINE void mask_row(T* row, int64_t row_stride, const IntervalHead<T>& h, const IntervalTile& t,
                             int64_t i) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  int64_t end = 0;
  for (int s = 0; s < t.count; ++s) {
    const IntervalSegment& segment = t.segments[s];
    const Range r = seen(h, t, segment, i);
    for (int64_t j = end; j < r.from; ++j) row[j] = kNone;
    end = r.to;
    if (h.self_penalty != T(0) && !segment.side && segment.begin <= i && i < segment.end) {
      row[segment.column + i - segment.begin] -= h.self_penalty;
    }
  }
  for (int64_t j = end; j < row_stride; ++j) row[j] = kNone;
}

template <class T>
LRA_CPU_INLINE void forward_rows(T* scores, int64_t rows, int64_t row_stride, const IntervalHead<T>& h,
                                 const IntervalTile& t, int64_t i0, uint16_t* bits) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = i0 + r;
    T* row = scores + r * row_stride;
    mask_row(row, row_stride, h, t, i);
    const T largest = lane_max(row, row_stride);
    for (int64_t j = 0; j < row_stride; ++j) row[j] = vexp(row[j] - largest);
    const T sum = lane_sum(row, row_stride);
    h.lse[i * h.lse_stride] = largest + std::log(sum);
    if (h.rate.threshold == 0) {
      const T inverse = T(1) / sum;
      for (int64_t j = 0; j < row_stride; ++j) row[j] *= inverse;
    } else {
      dropout_bits_cpu(h.seed, h.stream, h.first + (static_cast<uint64_t>(i) << 20), row_stride, bits);
      const T factor = static_cast<T>(h.rate.scale) / sum;
      for (int64_t j = 0; j < row_stride; ++j) row[j] = bits[j] >= h.rate.threshold ? row[j] * factor : T(0);
    }
  }
}

// From scores s and weight gradients g: s ← dropped weights, g ← score gradients A∘(g∘keep − Σ dO∘O + d_lse).
template <class T>
LRA_CPU_INLINE void backward_rows(T* s, T* g, int64_t rows, int64_t row_stride, const IntervalHead<T>& h,
                                  const IntervalHeadGradient<T>& d, const IntervalTile& t, int64_t i0,
                                  uint16_t* bits) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = i0 + r;
    T *weight = s + r * row_stride, *gradient = g + r * row_stride;
    mask_row(weight, row_stride, h, t, i);
    T delta = lane_dot(h.out + i * h.out_stride, d.d_out + i * h.out_stride, h.width);
    if (d.d_lse) delta -= d.d_lse[i * h.lse_stride];
    const T lse = h.lse[i * h.lse_stride];
    if (h.rate.threshold == 0) {
      for (int64_t j = 0; j < row_stride; ++j) {
        const T a = vexp(weight[j] - lse);
        weight[j] = a;
        gradient[j] = a * (gradient[j] - delta);
      }
    } else {
      dropout_bits_cpu(h.seed, h.stream, h.first + (static_cast<uint64_t>(i) << 20), row_stride, bits);
      const T scale = static_cast<T>(h.rate.scale);
      for (int64_t j = 0; j < row_stride; ++j) {
        const T a = vexp(weight[j] - lse);
        const T keep = bits[j] >= h.rate.threshold ? scale : T(0);
        weight[j] = a * keep;
        gradient[j] = a * (gradient[j] * keep - delta);
      }
    }
  }
}

LRA_CPU_CLONES void forward_rows_clones(float* s, int64_t rows, int64_t row_stride,
                                        const IntervalHead<float>& h, const IntervalTile& t, int64_t i0,
                                        uint16_t* bits) {
  forward_rows(s, rows, row_stride, h, t, i0, bits);
}
LRA_CPU_CLONES void forward_rows_clones(double* s, int64_t rows, int64_t row_stride,
                                        const IntervalHead<double>& h, const IntervalTile& t, int64_t i0,
                                        uint16_t* bits) {
  forward_rows(s, rows, row_stride, h, t, i0, bits);
}
LRA_CPU_CLONES void backward_rows_clones(float* s, float* g, int64_t rows, int64_t row_stride,
                                         const IntervalHead<float>& h, const IntervalHeadGradient<float>& d,
                                         const IntervalTile& t, int64_t i0, uint16_t* bits) {
  backward_rows(s, g, rows, row_stride, h, d, t, i0, bits);
}
LRA_CPU_CLONES void backward_rows_clones(double* s, double* g, int64_t rows, int64_t row_stride,
                                         const IntervalHead<double>& h, const IntervalHeadGradient<double>& d,
                                         const IntervalTile& t, int64_t i0, uint16_t* bits) {
  backward_rows(s, g, rows, row_stride, h, d, t, i0, bits);
}

int64_t tile_columns(const IntervalTile& t) {
  const IntervalSegment& last = t.segments[t.count - 1];
  return last.column + last.end - last.begin;
}

int64_t tile_elements(int64_t columns) { return tile_rows(columns) * padded(columns); }

// Scores of queries with the keys of every segment: a aᵀ-product each, `factor` times.
template <class T>
void products(const T* a, int64_t a_stride, const T* keys, int64_t P, T factor, int64_t rows,
              const IntervalTile& t, T* tile, int64_t row_stride) {
  for (int s = 0; s < t.count; ++s) {
    const IntervalSegment& segment = t.segments[s];
    gemm<T>(false, true, rows, segment.end - segment.begin, P, factor, a, a_stride, keys + segment.begin * P,
            P, T(0), tile + segment.column, row_stride);
  }
}

// Σ over segments of weights times values.
template <class T>
void combine(const T* tile, int64_t row_stride, const T* values, int64_t P, T factor, int64_t rows,
             const IntervalTile& t, T* out, int64_t out_stride) {
  for (int s = 0; s < t.count; ++s) {
    const IntervalSegment& segment = t.segments[s];
    gemm<T>(false, false, rows, P, segment.end - segment.begin, factor, tile + segment.column, row_stride,
            values + segment.begin * P, P, s == 0 ? T(0) : T(1), out, out_stride);
  }
}

// The other way round: what the queries give to the keys, added.
template <class T>
void spread(const T* tile, int64_t row_stride, const T* a, int64_t a_stride, int64_t P, T factor,
            int64_t rows, const IntervalTile& t, T* out) {
  for (int s = 0; s < t.count; ++s) {
    const IntervalSegment& segment = t.segments[s];
    gemm<T>(true, false, segment.end - segment.begin, P, rows, factor, tile + segment.column, row_stride, a,
            a_stride, T(1), out + segment.begin * P, P);
  }
}

template <class T>
void forward(const IntervalHead<T>& h, const IntervalTile& t, T* scratch) {
  const int64_t columns = tile_columns(t), row_stride = padded(columns), block = tile_rows(columns);
  auto* bits = reinterpret_cast<uint16_t*>(scratch + 2 * tile_elements(columns));
  for (int64_t i = t.first; i < t.last; i += block) {
    const int64_t rows = std::min(block, t.last - i);
    products(h.q + i * h.q_stride, h.q_stride, h.k, h.width, h.scale, rows, t, scratch, row_stride);
    forward_rows_clones(scratch, rows, row_stride, h, t, i, bits);
    combine(scratch, row_stride, h.v, h.width, T(1), rows, t, h.out + i * h.out_stride, h.out_stride);
  }
}

template <class T>
void backward(const IntervalHead<T>& h, const IntervalHeadGradient<T>& d, const IntervalTile& t, T* scratch) {
  const int64_t columns = tile_columns(t), row_stride = padded(columns), block = tile_rows(columns);
  T *s = scratch, *g = scratch + tile_elements(columns);
  auto* bits = reinterpret_cast<uint16_t*>(g + tile_elements(columns));
  for (int64_t i = t.first; i < t.last; i += block) {
    const int64_t rows = std::min(block, t.last - i), P = h.width;
    const T *q = h.q + i * h.q_stride, *d_out = d.d_out + i * h.out_stride;
    products(q, h.q_stride, h.k, P, h.scale, rows, t, s, row_stride);
    products(d_out, h.out_stride, h.v, P, T(1), rows, t, g, row_stride);
    backward_rows_clones(s, g, rows, row_stride, h, d, t, i, bits);
    spread(s, row_stride, d_out, h.out_stride, P, T(1), rows, t, d.d_v);
    combine(g, row_stride, h.k, P, h.scale, rows, t, d.d_q + i * h.q_stride, h.q_stride);
    spread(g, row_stride, q, h.q_stride, P, h.scale, rows, t, d.d_k);
  }
}

}  // namespace

int64_t interval_scratch(int64_t columns) {
  // A shorter tile may have more rows, hence the least of what any has.
  return 2 * std::max<int64_t>(tile_elements(columns), (int64_t{1} << 18) + 16 * 128) + padded(columns);
}

void interval_forward_cpu(const IntervalHead<float>& head, const IntervalTile& tile, float* scratch) {
  forward(head, tile, scratch);
}
void interval_forward_cpu(const IntervalHead<double>& head, const IntervalTile& tile, double* scratch) {
  forward(head, tile, scratch);
}
void interval_backward_cpu(const IntervalHead<float>& head, const IntervalHeadGradient<float>& gradient,
                           const IntervalTile& tile, float* scratch) {
  backward(head, gradient, tile, scratch);
}
void interval_backward_cpu(const IntervalHead<double>& head, const IntervalHeadGradient<double>& gradient,
                           const IntervalTile& tile, double* scratch) {
  backward(head, gradient, tile, scratch);
}

}  // namespace lra
