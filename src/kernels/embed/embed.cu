// CUDA side of the embedding (embed.h). The gradient of the table is embed_table.cu's.
#include "base/cuda_start.cuh"
#include "kernels/embed/embed_arguments.h"
#include "kernels/embed/embed_table.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

constexpr int64_t kPlaceMask = (int64_t{1} << 24) - 1;  // Rows::slot_of
constexpr int kThreads = 256;

// The row of tokens' id: of the table, or CLS.
template <class A>
__device__ const A* parameter_row(const EmbedArguments& a, int32_t token) {
  if (token == a.V) return static_cast<const A*>(a.cls);
  return static_cast<const A*>(a.table) + int64_t{token} * a.D;
}

// With a table of positions, all rows of parameters and activations on 16 bytes. A warp works on an item:
// two neighbouring places of eight rows of the batch, 128 columns of them; half a warp has a place, a thread
// an octet of columns, so that it reads the place's octet once for eight positions. What a position is, a
// lane finds out for all, an item ahead. A block stays with its 128 columns, and two blocks fill a
// multiprocessor: those columns of a table of bytes fit into its first cache, where streaming stores leave
// them. Its warps take neighbouring items, all rows of a place first, so that they share what they read of
// the position table.
constexpr int kLanes = 16, kPlaces = 32 / kLanes, kRows = 8;
constexpr int kWarps = 20;
constexpr uint32_t kAll = 0xffffffffu;

// A position that a warp works on.
template <class A>
struct alignas(16) Position {
  const A* parameters;  // the table's row, or CLS
  int32_t r;            // −1: there is none
  uint64_t draw;        // the number of its first octet's random words
};

// Which item a warp has: rows group·kRows … of places pair·kPlaces …
struct Walk {
  int groups, pairs, group, pair, step_group, step_pair;

  __device__ Walk(const EmbedArguments& a, int first, int step)
      : groups(static_cast<int>((a.B + kRows - 1) / kRows)),
        pairs(static_cast<int>((a.places + kPlaces - 1) / kPlaces)),
        group(first % groups),
        pair(first / groups),
        step_group(step % groups),
        step_pair(step / groups) {}

  __device__ bool more() const { return pair < pairs; }
  __device__ void advance() {
    group += step_group;
    pair += step_pair;
    if (group >= groups) group -= groups, ++pair;
  }
};

// What a lane reads of its position of an item: places in the order of lanes, eight rows of each.
template <bool kDropout>
struct Found {
  int32_t r = -1, token = 0;
  int64_t slot = 0;

  __device__ void read(const EmbedArguments& a, const Walk& walk, int lane) {
    const int b = walk.group * kRows + lane % kRows, p = walk.pair * kPlaces + lane / kRows;
    r = -1, token = 0;
    if (lane >= kPlaces * kRows || b >= a.B) return;
    const int32_t first = __ldg(a.offsets + b), end = __ldg(a.offsets + b + 1);
    if (p >= end - first) return;
    r = first + p;
    token = __ldg(a.tokens + r);
    if (kDropout) slot = __ldg(a.slots + r);
  }
  template <class A>
  __device__ Position<A> position(const EmbedArguments& a, uint32_t octets) const {
    return {parameter_row<A>(a, token), r, static_cast<uint64_t>(slot) * octets};
  }
};

template <class T, bool kDropout>
__global__ __launch_bounds__(32 * kWarps, 2) void embed_rows_kernel(EmbedArguments a, DropoutKeys keys) {
  using A = Accumulator<T>;
  __shared__ Position<A> shared[kWarps][kPlaces * kRows];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const auto width = static_cast<uint32_t>(a.D), octets = width / kOctet,
             octet = blockIdx.x * kLanes + static_cast<uint32_t>(lane) % kLanes;
  const bool mine = octet < octets;
  const uint32_t column = mine ? octet * kOctet : 0;
  const uint64_t stream = kDropout ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  const A* places = static_cast<const A*>(a.positions) + column;
  T* out = static_cast<T*>(a.out) + column;
  const auto write = [&](int32_t r, const Octet<A>& found, const A(&place)[kOctet], uint64_t draw) {
    A x[kOctet];
    widen(found, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] += place[i];
    if (kDropout) drop_out(draw_block(keys, stream, draw + octet), a.draw.rate, x);
    store_octet_once(out + uint64_t{static_cast<uint32_t>(r)} * width, narrow<T>(x));
  };
  const auto warps = static_cast<int>(blockDim.y),
             place_of_warp = static_cast<int>(blockIdx.y) * warps + warp;
  Walk walk(a, place_of_warp, static_cast<int>(gridDim.y) * warps);
  Found<kDropout> ahead;
  if (walk.more()) ahead.read(a, walk, lane);
  while (walk.more()) {
    if (lane < kPlaces * kRows) shared[warp][lane] = ahead.template position<A>(a, octets);
    const bool whole = __all_sync(kAll, mine && (lane >= kPlaces * kRows || ahead.r >= 0)),
               any = __any_sync(kAll, ahead.r >= 0);
    __syncwarp();
    const Position<A>* of_place = shared[warp] + lane / kLanes * kRows;
    const auto p = static_cast<uint32_t>(walk.pair * kPlaces + lane / kLanes);
    A place[kOctet];
    if (any) widen(load_octet_constant(places + uint64_t{p < a.M ? p : 0} * width), place);
    walk.advance();
    if (walk.more()) ahead.read(a, walk, lane);
    const auto find = [&](int k) { return load_octet_constant(of_place[k].parameters + column); };
    if (whole) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) write(of_place[k].r, find(k), place, of_place[k].draw);
    } else if (any && mine) {
#pragma unroll 1
      for (int k = 0; k < kRows; ++k) {
        if (of_place[k].r >= 0) write(of_place[k].r, find(k), place, of_place[k].draw);
      }
    }
    __syncwarp();
  }
  // What lies in no row.
  const int turn = static_cast<int>(gridDim.y) * warps * kPlaces;
  const int team = place_of_warp * kPlaces + lane / kLanes;
#pragma unroll 1
  for (int r = a.offsets[a.B] + team; r < a.T && mine; r += turn) {
    const int64_t slot = a.slots[r];
    A place[kOctet];
    widen(load_octet_constant(places + (slot & kPlaceMask) * width), place);
    write(r, load_octet_constant(parameter_row<A>(a, a.tokens[r]) + column), place,
          static_cast<uint64_t>(slot) * octets);
  }
}

// Everything else: a thread for each octet. kAligned: rows of activations lie on 16 bytes; kParameters: rows
// of parameters do.
template <class T, bool kAligned, bool kParameters>
__global__ __launch_bounds__(kThreads) void embed_octets_kernel(EmbedArguments a, DropoutKeys keys) {
  using A = Accumulator<T>;
  const int width = static_cast<int>(a.D);
  const int64_t octets = (a.D + kOctet - 1) / kOctet,
                index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, r = index / octets;
  if (r >= a.T) return;
  const int column = static_cast<int>(index % octets) * kOctet;
  const int64_t slot = a.slots[r];
  const auto load = [&](const A* row, A(&values)[kOctet]) {
    widen(load_octet<kParameters>(row, column, width), values);
  };
  A x[kOctet];
  load(parameter_row<A>(a, a.tokens[r]), x);
  if (a.positions) {
    A place[kOctet];
    load(static_cast<const A*>(a.positions) + (slot & kPlaceMask) * width, place);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] += place[i];
  }
  if (a.draw.rate.threshold) {
    const uint64_t stream = dropout_stream(a.draw.site, *a.draw.step);
    drop_out(draw_octet(keys, stream, slot, column, width), a.draw.rate, x);
  }
  store_octet<kAligned>(static_cast<T*>(a.out) + r * width, column, width, narrow<T>(x));
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
  constexpr int kAtOnce = 4;  // rows whose loads are in flight
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

template <class T, bool kDropout>
void start_rows(const EmbedArguments& a, cudaStream_t stream) {
  const auto kernel = embed_rows_kernel<T, kDropout>;
  static const int64_t room = resident_blocks(kernel, 32 * kWarps);
  const int64_t tiles = blocks(a.D, kLanes * kOctet),
                items = int64_t{blocks(a.B, kRows)} * blocks(a.places, kPlaces);
  const int64_t walkers = std::clamp<int64_t>(room / tiles, 1, std::max<int64_t>(1, blocks(items, kWarps)));
  // As many warps as make all rounds full.
  const int64_t rounds = std::max<int64_t>(1, blocks(items, walkers * kWarps));
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(walkers)),
      block(32, std::max(1u, blocks(items, walkers * rounds)));
  start_kernel(kernel, {grid, block, stream}, a, dropout_keys(a.draw));
}

template <class T, bool kAligned, bool kParameters>
void start_octets(const EmbedArguments& a, cudaStream_t stream) {
  const unsigned grid = blocks(a.T * ((a.D + kOctet - 1) / kOctet), kThreads);
  start_kernel(embed_octets_kernel<T, kAligned, kParameters>, {grid, kThreads, stream}, a,
               dropout_keys(a.draw));
}

template <class T>
void forward(const EmbedArguments& a, cudaStream_t stream) {
  if (a.T == 0) return;
  const auto *table = static_cast<const char*>(a.table), *cls = static_cast<const char*>(a.cls),
             *positions = static_cast<const char*>(a.positions);
  if (!all_aligned(a.D, static_cast<const T*>(a.out))) return start_octets<T, false, false>(a, stream);
  if (!all_aligned(a.D, table, cls, positions)) return start_octets<T, true, false>(a, stream);
  if constexpr (sizeof(T) < 8) {
    if (positions && a.B > 0)
      return a.draw.rate.threshold ? start_rows<T, true>(a, stream) : start_rows<T, false>(a, stream);
  }
  start_octets<T, true, true>(a, stream);
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
