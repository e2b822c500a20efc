// CUDA side of the classifier (mlp_head.h). What many threads read comes into shared memory by copies that
// go on while the thread does, 16 bytes each where rows begin on as many.
#include "base/cuda_start.cuh"
#include "kernels/mlp_head/mlp_head_arguments.h"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/partial_sums.cuh"

namespace lra {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kRows = kMlpHeadRows, kColumns = kMlpHeadColumns;
constexpr int kColumnsOfLane = kColumns / 32, kRowsOfWarp = kRows / kWarps;
constexpr int kDotWarps = 4;
constexpr int kElementsAhead = 8, kClassesAhead = 5;  // whose loads are in flight

template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));  // elements of 16 bytes

template <class T>
struct alignas(16) Wide {
  T at[kWide<T>];
};

template <class T>
struct Matrix {
  const T* data;
  int64_t rows, columns;
  bool aligned;  // every row begins on 16 bytes

  Matrix(const void* from, int64_t row_count, int64_t width)
      : data(static_cast<const T*>(from)),
        rows(row_count),
        columns(width),
        aligned(width % kWide<T> == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {}
};

template <int kElements, int kHigh, int kAcross, int kStride, class T>
__device__ void stage_pieces(T* shared, const Matrix<T>& m, int64_t row, int64_t column, int thread) {
  constexpr int kPieces = kAcross / kElements;
  static_assert(kHigh * kPieces % 32 == 0, "whole warps");
#pragma unroll 4
  for (int i = thread; i < kHigh * kPieces; i += kThreads) {
    const int r = i / kPieces, c = i % kPieces * kElements;
    const bool there = row + r < m.rows && column + c < m.columns;
    const T* from = there ? m.data + (row + r) * m.columns + column + c : m.data;
    copy_async_or_zero<kElements* static_cast<int>(sizeof(T))>(shared + r * kStride + c, from, there);
  }
}

// Begins to copy [kHigh, kAcross] of a matrix, from (row, column) on, to rows of shared memory that are
// kStride elements apart; zeros beyond its ends.
template <int kHigh, int kAcross, int kStride, class T>
__device__ void stage(T* shared, const Matrix<T>& m, int64_t row, int64_t column, int thread) {
  if (m.aligned) {
    stage_pieces<kWide<T>, kHigh, kAcross, kStride>(shared, m, row, column, thread);
  } else {
    stage_pieces<1, kHigh, kAcross, kStride>(shared, m, row, column, thread);
  }
}

// Of x and W₁, as wide as fits twice; a row is 16 bytes longer than that, so that what lanes read at the
// same column of 8 rows lies in different banks.
template <class T, int kUnits>
struct HiddenTile {
  static constexpr int kDeep = 512 / static_cast<int>(sizeof(T)), kStride = kDeep + kWide<T>;
  static constexpr int kElements = (kRows + kUnits) * kStride,
                       kBytes = 2 * kElements * static_cast<int>(sizeof(T));
  static_assert(kWarps * kRows * kUnits <= 2 * kElements, "the warps' sums take the place of the tiles");
};

// sum[r][j] += Σ x[lane / 4 + 8 r] W₁[lane % 4 + 4 j] over the warp's eighth of the tile's columns.
template <class T, int kUnits>
__device__ void add_products(const T* x, const T* weight, T (&sum)[kRows / 8][kUnits / 4]) {
  using Tile = HiddenTile<T, kUnits>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int q = 0; q < Tile::kDeep / kWarps; q += kWide<T>) {
    const int k = warp * (Tile::kDeep / kWarps) + q;
    Wide<T> from_x[kRows / 8], from_weight[kUnits / 4];
#pragma unroll
    for (int r = 0; r < kRows / 8; ++r) {
      from_x[r] = *reinterpret_cast<const Wide<T>*>(x + (lane / 4 + 8 * r) * Tile::kStride + k);
    }
#pragma unroll
    for (int j = 0; j < kUnits / 4; ++j) {
      from_weight[j] = *reinterpret_cast<const Wide<T>*>(weight + (lane % 4 + 4 * j) * Tile::kStride + k);
    }
#pragma unroll
    for (int e = 0; e < kWide<T>; ++e) {
#pragma unroll
      for (int r = 0; r < kRows / 8; ++r) {
#pragma unroll
        for (int j = 0; j < kUnits / 4; ++j) sum[r][j] += from_x[r].at[e] * from_weight[j].at[e];
      }
    }
  }
}

// h = relu(x W₁ᵀ + b₁), kRows rows and kUnits hidden units a block. The order of a sum depends on I alone.
template <class T, int kUnits>
__global__ __launch_bounds__(kThreads) void mlp_head_hidden_kernel(MlpHeadForwardArguments a, Matrix<T> x,
                                                                   Matrix<T> weight) {
  using Tile = HiddenTile<T, kUnits>;
  T* shared = dynamic_shared<T>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int64_t slices = (weight.rows + kUnits - 1) / kUnits, row = blockIdx.x / slices * kRows,
                unit = blockIdx.x % slices * kUnits, tiles = (x.columns + Tile::kDeep - 1) / Tile::kDeep;
  const auto begin = [&](int64_t tile) {
    if (tile < tiles) {
      T* to = shared + tile % 2 * Tile::kElements;
      stage<kRows, Tile::kDeep, Tile::kStride>(to, x, row, tile * Tile::kDeep, thread);
      stage<kUnits, Tile::kDeep, Tile::kStride>(to + kRows * Tile::kStride, weight, unit, tile * Tile::kDeep,
                                                thread);
    }
    copy_async_commit();
  };
  begin(0);
  begin(1);
  T sum[kRows / 8][kUnits / 4] = {};
  for (int64_t tile = 0; tile < tiles; ++tile) {
    copy_async_wait<1>();
    __syncthreads();
    const T* here = shared + tile % 2 * Tile::kElements;
    add_products<T, kUnits>(here, here + kRows * Tile::kStride, sum);
    __syncthreads();
    begin(tile + 2);
  }
#pragma unroll
  for (int r = 0; r < kRows / 8; ++r) {
#pragma unroll
    for (int j = 0; j < kUnits / 4; ++j) {
      shared[(warp * kRows + lane / 4 + 8 * r) * kUnits + lane % 4 + 4 * j] = sum[r][j];
    }
  }
  __syncthreads();
  const int64_t b = row + thread / kUnits, f = unit + thread % kUnits;
  if (thread >= kRows * kUnits || b >= x.rows || f >= weight.rows) return;
  T total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += shared[w * kRows * kUnits + thread];
  total += static_cast<const T*>(a.hidden_bias)[f];
  static_cast<T*>(a.hidden)[b * weight.rows + f] = total < T(0) ? T(0) : total;  // not a number stays so
}

// logits[b][c] = h[b] · W₂[c] + b₂[c], a warp each
template <class T>
__global__ __launch_bounds__(32 * kDotWarps) void mlp_head_logits_kernel(MlpHeadForwardArguments a) {
  const int64_t dot = static_cast<int64_t>(blockIdx.x) * kDotWarps + threadIdx.y, F = a.sizes.F;
  if (dot >= a.sizes.B * a.sizes.C) return;
  const int64_t c = dot % a.sizes.C;
  const T* hidden = static_cast<const T*>(a.hidden) + dot / a.sizes.C * F;
  const T* weight = static_cast<const T*>(a.out_weight) + c * F;
  const T bias = static_cast<const T*>(a.out_bias)[c];
  T sum = 0;
  for (int64_t first = threadIdx.x; first < F; first += 32 * kElementsAhead) {
    T from_hidden[kElementsAhead], from_weight[kElementsAhead];
#pragma unroll
    for (int k = 0; k < kElementsAhead; ++k) {
      const bool there = first + 32 * k < F;
      from_hidden[k] = there ? hidden[first + 32 * k] : T(0);
      from_weight[k] = there ? weight[first + 32 * k] : T(0);
    }
#pragma unroll
    for (int k = 0; k < kElementsAhead; ++k) sum += from_hidden[k] * from_weight[k];
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) static_cast<T*>(a.logits)[dot] = sum + bias;
}

// Where a block of the backward pass stands, and where it puts what it has.
template <class T>
struct Piece {
  int64_t row, unit, column;  // the first of each
  T *dx, *d_weight, *d_bias;  // of all rows or of the block's; null: not wanted
  bool adds;                  // to the gradients of parameters themselves
};

// dh[b][u] = Σ_c d[b][c] W₂[c][u] where h > 0; zeros beyond the ends
template <class T, int kUnits>
__device__ void hidden_gradient(const MlpHeadBackwardArguments& a, const Piece<T>& p, int thread, T* dh) {
  constexpr int kEach = kRows * kUnits / kThreads, kApart = kThreads / kUnits;  // rows of a thread
  const int64_t C = a.sizes.C, F = a.sizes.F, f = p.unit + thread % kUnits;
  const int r = thread / kUnits;
  const T* weight = static_cast<const T*>(a.out_weight) + f;
  const T* d = static_cast<const T*>(a.d_logits) + (p.row + r) * C;
  const T* h = static_cast<const T*>(a.hidden) + (p.row + r) * F + f;
  bool live[kEach];
  T hidden[kEach], sum[kEach] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    live[i] = f < F && p.row + r + i * kApart < a.sizes.B;
    hidden[i] = live[i] ? h[i * kApart * F] : T(0);
  }
  for (int64_t c = 0; c < C; c += kClassesAhead) {
    T w[kClassesAhead], from_d[kClassesAhead][kEach];
#pragma unroll
    for (int k = 0; k < kClassesAhead; ++k) {
      w[k] = f < F && c + k < C ? weight[(c + k) * F] : T(0);
#pragma unroll
      for (int i = 0; i < kEach; ++i) from_d[k][i] = live[i] && c + k < C ? d[i * kApart * C + c + k] : T(0);
    }
#pragma unroll
    for (int k = 0; k < kClassesAhead; ++k) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) sum[i] += from_d[k][i] * w[k];
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) dh[thread + i * kThreads] = hidden[i] <= T(0) ? T(0) : sum[i];
}

// dW₁[u][i] = Σ_b dh[b][u] x[b][i]; a warp has kUnits / kWarps units
template <class T, int kUnits>
__device__ void weight_gradient(const MlpHeadSizes& s, const Piece<T>& p, const T* dh, const T* x,
                                int thread) {
  constexpr int kEach = kUnits / kWarps;
  const int lane = thread % 32, first = thread / 32 * kEach;
  T* into[kEach][kColumnsOfLane];
  T before[kEach][kColumnsOfLane], sum[kEach][kColumnsOfLane] = {};
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
#pragma unroll
    for (int k = 0; k < kColumnsOfLane; ++k) {
      const int64_t u = p.unit + first + j, i = p.column + lane + 32 * k;
      into[j][k] = u < s.F && i < s.I ? p.d_weight + u * s.I + i : nullptr;
      before[j][k] = into[j][k] && p.adds ? *into[j][k] : T(0);
    }
  }
#pragma unroll 8
  for (int b = 0; b < kRows; ++b) {
#pragma unroll
    for (int k = 0; k < kColumnsOfLane; ++k) {
      const T value = x[b * kColumns + lane + 32 * k];
#pragma unroll
      for (int j = 0; j < kEach; ++j) sum[j][k] += dh[b * kUnits + first + j] * value;
    }
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
#pragma unroll
    for (int k = 0; k < kColumnsOfLane; ++k) {
      if (into[j][k]) *into[j][k] = before[j][k] + sum[j][k];
    }
  }
}

// dx[b][i] of the slice = Σ_u dh[b][u] W₁[u][i]; a warp has kRowsOfWarp rows
template <class T, int kUnits>
__device__ void input_gradient(const MlpHeadSizes& s, const Piece<T>& p, const T* dh, const T* weight,
                               int thread) {
  const int lane = thread % 32, first = thread / 32 * kRowsOfWarp;
  T sum[kRowsOfWarp][kColumnsOfLane] = {};
#pragma unroll 8
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int k = 0; k < kColumnsOfLane; ++k) {
      const T value = weight[u * kColumns + lane + 32 * k];
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) sum[r][k] += dh[(first + r) * kUnits + u] * value;
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
#pragma unroll
    for (int k = 0; k < kColumnsOfLane; ++k) {
      const int64_t b = p.row + first + r, i = p.column + lane + 32 * k;
      if (b < s.B && i < s.I) p.dx[b * s.I + i] = sum[r][k];
    }
  }
}

// db₁[u] = Σ_b dh[b][u]
template <class T, int kUnits>
__device__ void bias_gradient(const MlpHeadSizes& s, const Piece<T>& p, const T* dh, int thread) {
  if (thread >= kUnits || p.unit + thread >= s.F) return;
  T* into = p.d_bias + p.unit + thread;
  const T before = p.adds ? *into : T(0);
  T sum = 0;
#pragma unroll 8
  for (int b = 0; b < kRows; ++b) sum += dh[b * kUnits + thread];
  *into = before + sum;
}

// dW₂[c][f] += Σ_b d[b][c] h[b][f] for 32 neighbouring f; b₂ is the weight of one more unit, which is 1.
template <class T>
__device__ void out_gradient(const MlpHeadBackwardArguments& a, int64_t block) {
  const int64_t F = a.sizes.F, C = a.sizes.C, parts = (F + 1 + 31) / 32;
  const int64_t c = block / parts, f = block % parts * 32 + threadIdx.x;
  T* into = nullptr;
  if (f < F && a.d_out_weight) into = static_cast<T*>(a.d_out_weight) + c * F + f;
  if (f == F && a.d_out_bias) into = static_cast<T*>(a.d_out_bias) + c;
  const bool adds = threadIdx.y == 0 && into;
  const T before = adds ? *into : T(0);
  const T* d = static_cast<const T*>(a.d_logits) + c;
  const T* hidden = static_cast<const T*>(a.hidden) + f;
  const T sum = block_sum<32, kWarps, T>(
      into ? a.sizes.B : 0, [&](int64_t b) { return d[b * C] * (f < F ? hidden[b * F] : T(1)); });
  if (adds) *into = before + sum;
}

// The first half of the backward pass. What is summed over slices and over tiles of rows is left in scratch.
struct Scratch {
  void* dx;        // [slices, B, I]
  void* d_weight;  // [tiles, F, I]; here and below null: one tile adds to the gradient itself
  void* d_bias;    // [tiles, F]
};

template <class T>
__device__ Piece<T> piece_of(const MlpHeadBackwardArguments& a, const Scratch& scratch, int64_t block,
                             int units) {
  const MlpHeadSizes& s = a.sizes;
  const int64_t chunks = (s.I + kColumns - 1) / kColumns, slices = (s.F + units - 1) / units;
  const int64_t chunk = block % chunks, slice = block / chunks % slices, tile = block / chunks / slices;
  Piece<T> p{tile * kRows, slice * units, chunk * kColumns, nullptr, nullptr, nullptr, !scratch.d_weight};
  if (a.dx) p.dx = static_cast<T*>(scratch.dx) + slice * s.B * s.I;
  if (a.d_hidden_weight) {
    p.d_weight =
        p.adds ? static_cast<T*>(a.d_hidden_weight) : static_cast<T*>(scratch.d_weight) + tile * s.F * s.I;
  }
  if (a.d_hidden_bias && chunk == 0) {
    p.d_bias = p.adds ? static_cast<T*>(a.d_hidden_bias) : static_cast<T*>(scratch.d_bias) + tile * s.F;
  }
  return p;
}

// Blocks of (32, kWarps) threads: `pieces` for the hidden layer, the others for the outer one.
template <class T, int kUnits>
__global__ __launch_bounds__(kThreads) void mlp_head_gradients_kernel(MlpHeadBackwardArguments a, Matrix<T> x,
                                                                      Matrix<T> weight, Scratch scratch,
                                                                      int64_t pieces) {
  if (blockIdx.x >= pieces) return out_gradient<T>(a, blockIdx.x - pieces);
  T* x_tile = dynamic_shared<T>();             // [kRows, kColumns]
  T* weight_tile = x_tile + kRows * kColumns;  // [kUnits, kColumns]
  T* dh = weight_tile + kUnits * kColumns;     // [kRows, kUnits]
  const int thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const Piece<T> p = piece_of<T>(a, scratch, blockIdx.x, kUnits);
  stage<kRows, kColumns, kColumns>(x_tile, x, p.row, p.column, thread);
  stage<kUnits, kColumns, kColumns>(weight_tile, weight, p.unit, p.column, thread);
  copy_async_commit();
  hidden_gradient<T, kUnits>(a, p, thread, dh);
  copy_async_wait();
  __syncthreads();
  if (p.d_weight) weight_gradient<T, kUnits>(a.sizes, p, dh, x_tile, thread);
  if (p.dx) input_gradient<T, kUnits>(a.sizes, p, dh, weight_tile, thread);
  if (p.d_bias) bias_gradient<T, kUnits>(a.sizes, p, dh, thread);
}

// into[i] = Σ_p partial[p][i], or += that
struct Sum {
  const void* partial;  // [parts, width]
  void* into;           // null: not wanted
  int64_t parts, width;
  bool adds;
};
struct Sums {
  Sum of[3];
};

constexpr int kAcross = 32;  // columns of a block

template <class T>
__global__ __launch_bounds__(kThreads) void mlp_head_sums_kernel(Sums sums) {
  const Sum s = blockIdx.y == 0 ? sums.of[0] : blockIdx.y == 1 ? sums.of[1] : sums.of[2];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kAcross, i = first + threadIdx.x;
  if (!s.into || first >= s.width) return;
  T* into = static_cast<T*>(s.into) + i;
  const bool mine = threadIdx.y == 0 && i < s.width;
  const T before = mine && s.adds ? *into : T(0);
  const T* from = static_cast<const T*>(s.partial) + i;
  const T sum =
      block_sum<kAcross, kWarps, T>(i < s.width ? s.parts : 0, [&](int64_t p) { return from[p * s.width]; });
  if (mine) *into = before + sum;
}

template <class T, int kUnits>
void start_hidden(const MlpHeadForwardArguments& a, cudaStream_t stream) {
  const MlpHeadSizes& s = a.sizes;
  const int64_t blocks = mlp_head_parts(s.F, kUnits) * mlp_head_parts(s.B, kRows);
  start_kernel(mlp_head_hidden_kernel<T, kUnits>,
               {static_cast<unsigned>(blocks), kThreads, stream, HiddenTile<T, kUnits>::kBytes}, a,
               Matrix<T>(a.x, s.B, s.I), Matrix<T>(a.hidden_weight, s.F, s.I));
}

template <class T>
void start_forward(const MlpHeadForwardArguments& a, cudaStream_t stream) {
  const MlpHeadSizes& s = a.sizes;
  mlp_head_parts(s.F, 8) * mlp_head_parts(s.B, kRows) < kMlpHeadEnoughBlocks ? start_hidden<T, 4>(a, stream)
                                                                             : start_hidden<T, 8>(a, stream);
  const auto blocks = static_cast<unsigned>(mlp_head_parts(s.B * s.C, kDotWarps));
  start_kernel(mlp_head_logits_kernel<T>, {blocks, dim3(32, kDotWarps), stream}, a);
}

template <class T, int kUnits>
void start_gradients(const MlpHeadBackwardArguments& a, const Scratch& scratch, cudaStream_t stream) {
  const MlpHeadSizes& s = a.sizes;
  const bool inner = a.dx || a.d_hidden_weight || a.d_hidden_bias, outer = a.d_out_weight || a.d_out_bias;
  const int64_t pieces =
      inner ? mlp_head_parts(s.B, kRows) * mlp_head_parts(s.I, kColumns) * mlp_head_parts(s.F, kUnits) : 0;
  const int64_t blocks = pieces + (outer ? s.C * mlp_head_parts(s.F + 1, 32) : 0);
  if (blocks == 0) return;
  const Launch on{static_cast<unsigned>(blocks), dim3(32, kWarps), stream,
                  sizeof(T) * ((kRows + kUnits) * kColumns + kRows * kUnits)};
  start_kernel(mlp_head_gradients_kernel<T, kUnits>, on, a, Matrix<T>(a.x, s.B, s.I),
               Matrix<T>(a.hidden_weight, s.F, s.I), scratch, pieces);
}

// Of as many rows as there is scratch for.
template <class T>
void start_backward(const MlpHeadBackwardArguments& a, const MlpHeadBackwardPlan& plan, cudaStream_t stream) {
  const MlpHeadSizes& s = a.sizes;
  const int64_t tiles = mlp_head_parts(s.B, kRows), weights = s.F * s.I;
  T* place = static_cast<T*>(a.scratch);
  Scratch scratch{place, nullptr, nullptr};
  if (tiles > 1) {
    place += plan.slices * s.B * s.I;
    scratch.d_weight = place;
    scratch.d_bias = place + tiles * weights;
  }
  plan.units == 32 ? start_gradients<T, 32>(a, scratch, stream) : start_gradients<T, 16>(a, scratch, stream);
  const Sums sums{{{scratch.dx, a.dx, plan.slices, s.B * s.I, false},
                   {scratch.d_weight, a.d_hidden_weight, tiles, weights, true},
                   {scratch.d_bias, a.d_hidden_bias, tiles, s.F, true}}};
  const int64_t widest = tiles > 1 ? std::max(s.B * s.I, weights) : s.B * s.I;
  if (!a.dx && (tiles == 1 || !(a.d_hidden_weight || a.d_hidden_bias))) return;
  const dim3 grid(static_cast<unsigned>(mlp_head_parts(widest, kAcross)), tiles > 1 ? 3 : 1);
  start_kernel(mlp_head_sums_kernel<T>, {grid, dim3(kAcross, kWarps), stream}, sums);
}

template <class T>
void start_backward_by_rows(const MlpHeadBackwardArguments& a, cudaStream_t stream) {
  const MlpHeadSizes& s = a.sizes;
  const MlpHeadBackwardPlan plan = mlp_head_backward_plan(s);
  for (int64_t first = 0; first < s.B; first += plan.rows) {
    MlpHeadBackwardArguments part = a;
    part.sizes.B = std::min(plan.rows, s.B - first);
    part.x = static_cast<const T*>(a.x) + first * s.I;
    part.hidden = static_cast<const T*>(a.hidden) + first * s.F;
    part.d_logits = static_cast<const T*>(a.d_logits) + first * s.C;
    if (a.dx) part.dx = static_cast<T*>(a.dx) + first * s.I;
    start_backward<T>(part, plan, stream);
  }
}

int mlp_head_forward_launch(const MlpHeadForwardArguments& a, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  if (a.sizes.B == 0) return 0;
  a.sizes.element == 8 ? start_forward<double>(a, stream) : start_forward<float>(a, stream);
  return cudaGetLastError();
}

int mlp_head_backward_launch(const MlpHeadBackwardArguments& a, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  a.sizes.element == 8 ? start_backward_by_rows<double>(a, stream) : start_backward_by_rows<float>(a, stream);
  return cudaGetLastError();
}

const bool registered = (mlp_head_forward_cuda = mlp_head_forward_launch,
                         mlp_head_backward_cuda = mlp_head_backward_launch, true);

}  // namespace
}  // namespace lra
