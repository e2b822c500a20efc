// CUDA side of the embedding (embed.h). The gradient of the table is embed_table.cu's.
#include "base/cuda_start.cuh"
#include "kernels/embed/embed_arguments.h"
#include "kernels/embed/embed_table.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

constexpr int64_t kPlaceMask = (int64_t{1} << 24) - 1;  // Rows::slot_of
constexpr int kThreads = 256, kUnitRows = 4;
constexpr int kAtOnce = 4;  // rows of a gradient whose loads are in flight
constexpr int kBlocks = 3;  // that a multiprocessor holds

// Which positions a block works on. A block is blockDim.y teams, whose threads have an octet of columns each;
// a unit is kUnitRows positions for each team. With a position table these are one place of kUnitRows rows of
// the batch, so that a thread needs that row of the table once. What lies in no row comes in units of
// neighbours; without a position table, all.
struct Units {
  const int32_t* offsets;  // [B + 1]
  int32_t B, T;
  int32_t tiles;    // of places
  int32_t in_rows;  // units
  int32_t begin;    // of the positions in no row

  __device__ explicit Units(const EmbedArguments& a)
      : offsets(a.offsets),
        B(static_cast<int32_t>(a.B)),
        T(static_cast<int32_t>(a.T)),
        tiles((static_cast<int32_t>(a.places + blockDim.y) - 1) / static_cast<int32_t>(blockDim.y)),
        in_rows(a.positions ? (B + kUnitRows - 1) / kUnitRows * tiles : 0),
        begin(a.positions ? __ldg(offsets + B) : 0) {}

  __device__ int32_t size() const { return kUnitRows * static_cast<int32_t>(blockDim.y); }
  __device__ int32_t count() const { return in_rows + (T - begin + size() - 1) / size(); }
  __device__ int32_t place(int32_t unit) const {
    return unit % tiles * static_cast<int32_t>(blockDim.y) + static_cast<int32_t>(threadIdx.y);
  }

  // −1: none
  __device__ int32_t position(int32_t unit, int row) const {
    if (unit >= in_rows) {
      const auto at = row * static_cast<int32_t>(blockDim.y) + static_cast<int32_t>(threadIdx.y),
                 first = begin + (unit - in_rows) * size();
      return at < T - first ? first + at : -1;
    }
    const int32_t b = unit / tiles * kUnitRows + row;
    if (b >= B) return -1;
    const int32_t r = __ldg(offsets + b) + place(unit);
    return r < __ldg(offsets + b + 1) ? r : -1;
  }
};

// A unit's positions, their tokens and slots; −1: none.
struct UnitRows {
  int32_t r[kUnitRows], token[kUnitRows];
  int64_t slot[kUnitRows];

  __device__ void load(const EmbedArguments& a, const Units& units, int32_t unit) {
#pragma unroll
    for (int k = 0; k < kUnitRows; ++k) {
      r[k] = units.position(unit, k);
      token[k] = r[k] < 0 ? 0 : __ldg(a.tokens + r[k]);
      slot[k] = r[k] < 0 ? 0 : __ldg(a.slots + r[k]);
    }
  }
};

// kAligned: rows of activations lie on 16 bytes; kParameters: rows of parameters do. As many blocks as there
// is room for go through the units, tile of columns by tile: 256 columns of 257 tokens are most of what the
// processor's first cache holds. Tokens are read a unit ahead.
template <class T, bool kAligned, bool kParameters>
__global__ __launch_bounds__(kThreads, sizeof(T) == 8 ? 2 : kBlocks) void embed_kernel(EmbedArguments a,
                                                                                       DropoutKeys keys) {
  using A = Accumulator<T>;
  const int width = static_cast<int>(a.D), tile = static_cast<int>(blockDim.x) * kOctet;
  const bool drops = a.draw.rate.threshold;
  const uint64_t stream = drops ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  const auto *table = static_cast<const A*>(a.table), *positions = static_cast<const A*>(a.positions);
  const Units units(a);
  const auto stride = static_cast<int32_t>(gridDim.x);
  for (int c = static_cast<int>(threadIdx.x) * kOctet; c < width; c += tile) {
    const auto load = [&](const A* row) { return load_octet<kParameters>(row, c, width); };
    auto unit = static_cast<int32_t>(blockIdx.x);
    UnitRows ahead;
    if (unit < units.count()) ahead.load(a, units, unit);
    for (; unit < units.count(); unit += stride) {
      const UnitRows rows = ahead;
      // The place of all rows, unless their slots say otherwise.
      int32_t held = unit < units.in_rows && units.place(unit) < a.M ? units.place(unit) : 0;
      A place[kOctet] = {};
      if (positions) widen(load(positions + int64_t{held} * width), place);
      Octet<A> found[kUnitRows];
#pragma unroll
      for (int k = 0; k < kUnitRows; ++k) {
        const int32_t token = rows.token[k];
        found[k] =
            load(token == a.V ? static_cast<const A*>(a.cls) : table + static_cast<int64_t>(token) * width);
      }
      if (unit + stride < units.count()) ahead.load(a, units, unit + stride);
#pragma unroll
      for (int k = 0; k < kUnitRows; ++k) {
        if (rows.r[k] < 0) continue;
        A x[kOctet];
        widen(found[k], x);
        if (positions) {
          const auto own = static_cast<int32_t>(rows.slot[k] & kPlaceMask);
          if (own != held) {
            held = own;
            widen(load(positions + int64_t{held} * width), place);
          }
#pragma unroll
          for (int i = 0; i < kOctet; ++i) x[i] += place[i];
        }
        if (drops) drop_out(draw_octet(keys, stream, rows.slot[k], c, width), a.draw.rate, x);
        store_octet<kAligned>(static_cast<T*>(a.out) + static_cast<int64_t>(rows.r[k]) * width, c, width,
                              narrow<T>(x));
      }
    }
  }
}

// d_positions[p] += Σ_b g[offsets[b] + p] over the rows longer than p, in the order of rows. A thread owns an
// octet of a place.
template <class T, bool kAligned>
__global__ __launch_bounds__(256) void embed_positions_kernel(EmbedGradientArguments a) {
  using A = Accumulator<T>;
  const int c = static_cast<int>(blockIdx.x * 32 + threadIdx.x) * kOctet, width = static_cast<int>(a.D);
  const int64_t p = static_cast<int64_t>(blockIdx.y) * 8 + threadIdx.y;
  if (c >= width || p >= a.places) return;
  const bool drops = a.draw.rate.threshold;
  const uint64_t stream = drops ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  A sum[kOctet] = {};
  for (int64_t first = 0; first < a.B; first += kAtOnce) {
    int64_t r[kAtOnce];  // −1: the row has no such place
    Octet<T> loaded[kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const bool there = first + k < a.B && p < __ldg(a.lengths + first + k);
      r[k] = there ? __ldg(a.offsets + first + k) + p : -1;
      if (there) loaded[k] = load_octet<kAligned>(static_cast<const T*>(a.dy) + r[k] * a.D, c, width);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      A g[kOctet];
      widen(loaded[k], g);
      if (drops && r[k] >= 0) drop_out(a.draw, stream, __ldg(a.draw.slots + r[k]), c, width, g);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) sum[i] += g[i];
    }
  }
  A* into = static_cast<A*>(a.d_positions) + p * a.D + c;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (c + i < width) into[i] += sum[i];
  }
}

unsigned blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

template <class T, bool kAligned, bool kParameters>
void start(const EmbedArguments& a, cudaStream_t stream) {
  unsigned lanes = 1;
  while (lanes < 32 && lanes * kOctet < a.D) lanes *= 2;
  const dim3 block(lanes, kThreads / lanes);
  const int64_t of_all = blocks(a.T, int64_t{kUnitRows} * block.y),
                of_rows = a.positions ? int64_t{blocks(a.B, kUnitRows)} * blocks(a.places, block.y) : 0;
  const auto kernel = embed_kernel<T, kAligned, kParameters>;
  static const int64_t room = resident_blocks(kernel, kThreads);
  const dim3 grid(static_cast<unsigned>(std::min(of_rows + of_all, room)));
  start_kernel(kernel, {grid, block, stream}, a, dropout_keys(a.draw));
}

template <class T>
void forward(const EmbedArguments& a, cudaStream_t stream) {
  if (a.T == 0) return;
  const auto *table = static_cast<const char*>(a.table), *cls = static_cast<const char*>(a.cls),
             *positions = static_cast<const char*>(a.positions);
  if (!all_aligned(a.D, static_cast<const T*>(a.out))) return start<T, false, false>(a, stream);
  if (!all_aligned(a.D, table, cls, positions)) return start<T, true, false>(a, stream);
  return start<T, true, true>(a, stream);
}

template <class T>
void positions_backward(const EmbedGradientArguments& a, cudaStream_t stream) {
  if (!a.d_positions || a.places == 0) return;
  const dim3 grid(blocks(a.D, 32 * 8), blocks(a.places, 8)), block(32, 8);
  if (all_aligned(a.D, static_cast<const T*>(a.dy))) {
    start_kernel(embed_positions_kernel<T, true>, {grid, block, stream}, a);
  } else {
    start_kernel(embed_positions_kernel<T, false>, {grid, block, stream}, a);
  }
}

int embed_forward_launch(const EmbedArguments& a, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  if (a.element == 2) forward<__nv_bfloat16>(a, stream);
  if (a.element == 4) forward<float>(a, stream);
  if (a.element == 8) forward<double>(a, stream);
  return cudaGetLastError();
}

int embed_backward_launch(const EmbedGradientArguments& a, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  if (a.element == 2) positions_backward<__nv_bfloat16>(a, stream);
  if (a.element == 4) positions_backward<float>(a, stream);
  if (a.element == 8) positions_backward<double>(a, stream);
  const cudaError_t error = embed_table_backward(a, stream);
  return error != cudaSuccess ? error : cudaGetLastError();
}

const bool registered =
    (embed_forward_cuda = embed_forward_launch, embed_backward_cuda = embed_backward_launch, true);

}  // namespace
}  // namespace lra
