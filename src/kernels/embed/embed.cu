// CUDA side of the embedding (embed.h). The gradient of the table is embed_table.cu's.
#include "base/cuda_start.cuh"
#include "kernels/embed/embed_arguments.h"
#include "kernels/embed/embed_table.cuh"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

constexpr int64_t kPlaceMask = (int64_t{1} << 24) - 1;  // Rows::slot_of
constexpr int kOctets = 8, kColumns = kOctets * kOctet, kLanes = 32, kUnitRows = 8;
constexpr int64_t kSharedBytes = 204 * 1024;  // what a processor has for slices of the table

// Which positions a block works on: units of kUnitRows × kLanes, a lane has one of every row. With a position
// table a unit is kLanes places of kUnitRows rows of the batch, so that a lane stays at its place and needs
// that row of the table once. What lies in no row comes in units of neighbours; without a position table,
// all.
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
        tiles((static_cast<int32_t>(a.places) + kLanes - 1) / kLanes),
        in_rows(a.positions ? (B + kUnitRows - 1) / kUnitRows * tiles : 0),
        begin(a.positions ? __ldg(offsets + B) : 0) {}

  __device__ int32_t count() const {
    return in_rows + (T - begin + kUnitRows * kLanes - 1) / (kUnitRows * kLanes);
  }
};

// What a block has to know of a position. Every thread looks one position of the next unit up while the block
// works on this one.
struct alignas(16) Name {
  int32_t r;  // −1: none
  int32_t id, place;
};

struct Names {
  const EmbedArguments& a;
  const Units units;
  Name name;
  int64_t slot;  // for dropout

  __device__ explicit Names(const EmbedArguments& arguments) : a(arguments), units(a) {}

  __device__ int32_t position(int32_t unit, int row, int lane) const {
    if (unit >= units.in_rows) {
      const int32_t first = units.begin + (unit - units.in_rows) * (kUnitRows * kLanes);
      return units.T - first > row * kLanes + lane ? first + row * kLanes + lane : -1;
    }
    const int32_t b = unit / units.tiles * kUnitRows + row, place = unit % units.tiles * kLanes + lane;
    if (b >= units.B) return -1;
    const int32_t r = __ldg(units.offsets + b) + place;
    return r < __ldg(units.offsets + b + 1) ? r : -1;
  }

  // The position that is names[thread] of the unit.
  __device__ void look_up(int32_t unit, int thread) {
    name.r = unit < units.count() ? position(unit, thread / kLanes, thread % kLanes) : -1;
    if (name.r < 0) return;
    name.id = __ldg(a.tokens + name.r);
    name.place = a.positions ? static_cast<int32_t>(__ldg(a.slots + name.r) & kPlaceMask) : -1;
    slot = a.draw.rate.threshold ? __ldg(a.draw.slots + name.r) : 0;
  }
};

// A slice of kColumns columns of the table, CLS as its last row, for the threads of one block. In shared
// memory the first halves of a row's octets come before the second halves: each is then read from all banks
// at once.
template <class A, bool kParameters, bool kShared>
struct TableSlice {
  const A *table, *cls;
  A* shared;
  int64_t D, V;

  // For all threads of the block.
  __device__ void fill(int first_column) {
    constexpr int kStep = kParameters ? 4 : 1;
    const int width = static_cast<int>(D), rows = static_cast<int>(V) + (cls ? 1 : 0);
    for (int i = static_cast<int>(threadIdx.y * kOctets + threadIdx.x); i < rows * (kColumns / kStep);
         i += kOctets * kLanes) {
      const int id = i / (kColumns / kStep), at = i % (kColumns / kStep) * kStep, column = first_column + at;
      const A* from = (id < V ? table + id * D : cls) + column;
      A* to = shared + id * kColumns + at / 4 % 2 * (kColumns / 2) + at / 8 * 4 + at % 4;
      if (column < width) copy_async<kStep * sizeof(A)>(to, from);
    }
    copy_async_commit();
    copy_async_wait();
    __syncthreads();
  }

  __device__ void read(int32_t id, int column, A (&x)[kOctet]) const {
    if constexpr (kShared) {
      const A* row = shared + id * kColumns + threadIdx.x * 4;
      const uint4 low = *reinterpret_cast<const uint4*>(row),
                  high = *reinterpret_cast<const uint4*>(row + kColumns / 2);
      widen(Octet<A>{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}}, x);
    } else {
      widen(load_octet<kParameters>(id == V ? cls : table + id * D, column, static_cast<int>(D)), x);
    }
  }
};

// A block of kOctets × kLanes threads has a slice of columns, a thread an octet of one position after the
// other. kAligned: rows of activations lie on 16 bytes; kParameters: rows of parameters do.
template <class T, bool kAligned, bool kParameters, bool kShared>
__global__ __launch_bounds__(kOctets* kLanes, sizeof(T) == 8 ? 1 : 3) void embed_kernel(EmbedArguments a) {
  using A = Accumulator<T>;
  __shared__ Name names[kUnitRows * kLanes];
  __shared__ int64_t slots[kUnitRows * kLanes];
  const int lane = static_cast<int>(threadIdx.y), thread = lane * kOctets + static_cast<int>(threadIdx.x);
  const int c = static_cast<int>(blockIdx.y * kOctets + threadIdx.x) * kOctet, width = static_cast<int>(a.D);
  const bool drops = a.draw.rate.threshold;
  const uint64_t stream = drops ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  const auto* positions = static_cast<const A*>(a.positions);
  TableSlice<A, kParameters, kShared> table{static_cast<const A*>(a.table), static_cast<const A*>(a.cls),
                                            dynamic_shared<A>(), a.D, a.V};
  Names next(a);
  next.look_up(static_cast<int32_t>(blockIdx.x), thread);
  if constexpr (kShared) table.fill(static_cast<int>(blockIdx.y) * kColumns);
  int32_t held = -1;  // the place whose row of the position table is in `place`
  A place[kOctet] = {};
  for (auto unit = static_cast<int32_t>(blockIdx.x); unit < next.units.count(); unit += gridDim.x) {
    names[thread] = next.name;
    slots[thread] = next.slot;
    __syncthreads();
    next.look_up(unit + static_cast<int32_t>(gridDim.x), thread);
#pragma unroll 4
    for (int row = 0; row < kUnitRows; ++row) {
      const Name name = names[row * kLanes + lane];
      if (name.r < 0 || c >= width) continue;
      A x[kOctet];
      table.read(name.id, c, x);
      if (name.place != held) {
        held = name.place;
        widen(load_octet<kParameters>(positions + static_cast<int64_t>(held) * width, c, width), place);
      }
      if (positions) {
#pragma unroll
        for (int i = 0; i < kOctet; ++i) x[i] += place[i];
      }
      if (drops) drop_out(a.draw, stream, slots[row * kLanes + lane], c, width, x);
      store_octet<kAligned>(static_cast<T*>(a.out) + static_cast<int64_t>(name.r) * width, c, width,
                            narrow<T>(x));
    }
    __syncthreads();
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

template <class T, bool kAligned, bool kParameters>
void start(const EmbedArguments& a, cudaStream_t stream) {
  constexpr int64_t kProcessors = 132, kEach = 3;  // a large device, and its blocks at once
  const int64_t slices = blocks(a.D, kColumns), shared = (a.V + 1) * kColumns * 4,
                fit = kSharedBytes / shared;
  const int64_t most =
      (a.B + kUnitRows - 1) / kUnitRows * blocks(a.places, kLanes) + blocks(a.T, kUnitRows * kLanes);
  const auto grid = [&](int64_t each) {
    const int64_t wanted = kProcessors * each / slices, some = wanted < most ? wanted : most;
    return dim3(static_cast<unsigned>(some < 1 ? 1 : some), static_cast<unsigned>(slices));
  };
  const dim3 block(kOctets, kLanes);
  if constexpr (kAligned && sizeof(T) < 8) {
    const dim3 few = grid(fit < kEach ? fit : kEach);
    if (fit >= 2 && a.T / few.x >= 4 * a.V) {  // it is read more often than filled in
      return start_kernel(embed_kernel<T, true, kParameters, true>,
                          {few, block, stream, static_cast<size_t>(shared)}, a);
    }
  }
  start_kernel(embed_kernel<T, kAligned, kParameters, false>, {grid(kEach), block, stream}, a);
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
