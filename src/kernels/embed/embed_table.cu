// The gradient of the table:  d_table[v] += Σ g[r] over tokens[r] = v,  g = dropout(dy); row V is CLS.
//
// A block is one warp; it owns a slice of columns, a lane one or two of them, and adds positions one after
// the other into a table of its own in shared memory: no two threads ever add to one number, so there are no
// atomics and the order is fixed. Few such warps fit on a processor, so each keeps many loads in flight. The
// parts are then added up in order.
#include <type_traits>

#include "kernels/embed/embed_table.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

template <class T>
struct Slice {
  using A = Accumulator<T>;
  static constexpr int kEach = sizeof(T) == 8 ? 1 : 2;  // columns of a lane
  static constexpr int kColumns = 32 * kEach;           // of a warp: embed_slice
};

// A lane's elements of one position, as loaded: bfloat16 in pairs would else take a register each.
template <class T>
struct Few {
  using Word = typename std::conditional<sizeof(T) == 2, unsigned, uint2>::type;
  Word raw = {};

  __device__ Accumulator<T> at(int i) const {
    T e[Slice<T>::kEach];
    memcpy(e, &raw, sizeof(e));
    return static_cast<Accumulator<T>>(e[i]);
  }
};

template <bool kVector, class T>
__device__ Few<T> load_few(const T* p, int n) {
  Few<T> few;
  if constexpr (kVector) {
    few.raw = __ldcs(reinterpret_cast<const typename Few<T>::Word*>(p));
  } else {
    T e[Slice<T>::kEach];
#pragma unroll
    for (int i = 0; i < Slice<T>::kEach; ++i) e[i] = i < n ? p[i] : static_cast<T>(0.f);
    memcpy(&few.raw, e, sizeof(e));
  }
  return few;
}

// A lane's columns of one row of its table.
template <class T>
struct alignas(Slice<T>::kEach * sizeof(Accumulator<T>)) Cell {
  Accumulator<T> e[Slice<T>::kEach];
};

// Adds four positions to the table. Their cells are read together, to wait once; where ids are equal the
// later position continues from the earlier one's sum.
template <class T>
__device__ void add_four(Cell<T>* table, const int32_t (&id)[4], const Cell<T> (&g)[4]) {
  Cell<T> cell[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) cell[i] = table[id[i] * 32];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int e = 0; e < Slice<T>::kEach; ++e) {
#pragma unroll
      for (int h = 0; h < i; ++h) cell[i].e[e] = id[h] == id[i] ? cell[h].e[e] : cell[i].e[e];
      cell[i].e[e] += g[i].e[e];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) table[id[i] * 32] = cell[i];
}

// Dropout on four positions: every lane makes one Philox block of them, and they are dealt out through
// `words`, [4, kColumns] 16-bit numbers. Lane l has the slots of positions l, l + 32, …; `row` is the first
// of the four.
template <class T>
__device__ void drop_four(const DropoutDraw& draw, uint64_t stream, int64_t slots, int row, int64_t slice,
                          int64_t width, PhiloxBlock* words, Cell<T> (&g)[4]) {
  using S = Slice<T>;
  constexpr int kOctets = S::kColumns / 8;
  const int lane = static_cast<int>(threadIdx.x), mine = lane / kOctets % 4;
  const int64_t slot = __shfl_sync(0xffffffffu, slots, (row + mine) % 32);
  const uint64_t octet = static_cast<uint64_t>(slice * kOctets + lane % kOctets);
  const PhiloxBlock block = dropout_block(draw.seed, stream, dropout_position(slot, width) / 8 + octet);
  __syncwarp();
  if (lane < 4 * kOctets) words[lane] = block;
  __syncwarp();
  const auto* bits = reinterpret_cast<const uint16_t*>(words) + lane * S::kEach;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int e = 0; e < S::kEach; ++e) {
      const bool kept = bits[i * S::kColumns + e] >= draw.rate.threshold;
      g[i].e[e] = kept ? g[i].e[e] * static_cast<typename S::A>(draw.rate.scale) : 0;
    }
  }
}

// A lane's elements of one position after the other, up to the last; then zeros.
template <class T, bool kVector>
struct Reader {
  const T* next;
  int64_t left, width;
  int n;

  __device__ Few<T> read() {
    const Few<T> few = left > 0 ? load_few<kVector>(next, n) : Few<T>{};
    next += width;
    --left;
    return few;
  }
};

// Ids and slots of the next positions: lane l has those of positions l, l + 32, … Beyond the last: 0.
template <int kHeld, bool kDropout>
struct Names {
  int32_t id[kHeld];
  int64_t slot[kHeld];

  __device__ Names(const EmbedGradientArguments& a, int64_t first, int64_t last) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int64_t r = first + h * 32 + threadIdx.x;
      id[h] = r < last ? __ldg(a.tokens + r) : 0;
      slot[h] = kDropout && r < last ? __ldg(a.draw.slots + r) : 0;
    }
  }
};

// partial[part, v, slice] = Σ g[r] over the part's positions with tokens[r] = v.
template <class T, bool kVector, bool kDropout>
__global__ __launch_bounds__(32) void embed_sums_kernel(EmbedGradientArguments a) {
  using S = Slice<T>;
  constexpr int kAhead = sizeof(T) == 2 && !kDropout ? 64 : 32;  // positions whose loads are in flight
  extern __shared__ __align__(16) unsigned char shared[];
  auto* words = reinterpret_cast<PhiloxBlock*>(shared);  // [32]
  const int lane = static_cast<int>(threadIdx.x);
  Cell<T>* table = reinterpret_cast<Cell<T>*>(shared + 32 * sizeof(PhiloxBlock)) + lane;  // [V + 1, 32]
  for (int64_t v = 0; v <= a.V; ++v) table[v * 32] = {};
  const int64_t c = static_cast<int64_t>(blockIdx.y) * S::kColumns + lane * S::kEach;
  const int n = c >= a.D ? 0 : a.D - c < S::kEach ? static_cast<int>(a.D - c) : S::kEach;
  const int64_t size = (a.T + a.parts - 1) / a.parts, first = blockIdx.x * size;
  const int64_t last = first + size < a.T ? first + size : a.T;
  const uint64_t stream = kDropout ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  Reader<T, kVector> reader{static_cast<const T*>(a.dy) + first * a.D + c, n ? last - first : 0, a.D, n};
  Few<T> ahead[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) ahead[j] = reader.read();
  Names<kAhead / 32, kDropout> following(a, first, last);
  for (int64_t r = first; r < last; r += kAhead) {
    const Names<kAhead / 32, kDropout> now = following;
    following = {a, r + kAhead, last};
#pragma unroll
    for (int j = 0; j < kAhead; j += 4) {
      int32_t id[4];
      Cell<T> g[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        id[i] = __shfl_sync(0xffffffffu, now.id[j / 32], (j + i) % 32);
#pragma unroll
        for (int e = 0; e < S::kEach; ++e) g[i].e[e] = ahead[j + i].at(e);
        ahead[j + i] = reader.read();
      }
      if (kDropout) drop_four<T>(a.draw, stream, now.slot[j / 32], j, blockIdx.y, a.D, words, g);
      add_four<T>(table, id, g);
    }
  }
  auto* out = static_cast<typename S::A*>(a.partial) + blockIdx.x * (a.V + 1) * a.D + c;
  for (int64_t v = 0; v <= a.V; ++v) {
    if (kVector && n) *reinterpret_cast<Cell<T>*>(out + v * a.D) = table[v * 32];
    for (int e = 0; !kVector && e < n; ++e) out[v * a.D + e] = table[v * 32].e[e];
  }
}

// The sums over the parts, in a fixed order: 8 threads take every 8th part of a column.
template <class A>
__global__ __launch_bounds__(256) void embed_parts_kernel(EmbedGradientArguments a) {
  __shared__ A sums[8][32];
  const int64_t v = blockIdx.y, c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const A* partial = static_cast<const A*>(a.partial) + v * a.D + c;
  A sum = 0;
  if (c < a.D) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < a.parts; part += 8)
      sum += __ldg(partial + part * (a.V + 1) * a.D);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  A* into = v < a.V ? static_cast<A*>(a.d_table) : static_cast<A*>(a.d_cls);
  if (threadIdx.y || c >= a.D || !into) return;
  for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  into[(v < a.V ? v * a.D : 0) + c] += sum;
}

constexpr int kIds = 128;

// Any vocabulary: a warp owns kIds ids and a slice of columns, and searches all tokens for its own.
template <class T>
__global__ __launch_bounds__(32) void embed_search_kernel(EmbedGradientArguments a) {
  using S = Slice<T>;
  using A = typename S::A;
  __shared__ A table[kIds][S::kColumns];
  const int lane = static_cast<int>(threadIdx.x);
  for (int v = 0; v < kIds; ++v) {
    for (int e = 0; e < S::kEach; ++e) table[v][lane * S::kEach + e] = 0;
  }
  const int64_t c = static_cast<int64_t>(blockIdx.y) * S::kColumns + lane * S::kEach;
  const int n = c >= a.D ? 0 : a.D - c < S::kEach ? static_cast<int>(a.D - c) : S::kEach;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kIds;
  const bool drops = a.draw.rate.threshold;
  const uint64_t stream = drops ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  for (int64_t from = 0; from < a.T; from += 32) {
    const int64_t id = from + lane < a.T ? __ldg(a.tokens + from + lane) : -1;
    uint32_t found = __ballot_sync(0xffffffffu, id >= first && id < first + kIds);
    for (; found; found &= found - 1) {
      const int at = __ffs(static_cast<int>(found)) - 1;
      const int64_t r = from + at, v = __shfl_sync(0xffffffffu, id, at) - first;
      if (n == 0) continue;
      PhiloxBlock block = {};
      if (drops)
        block = dropout_block(a.draw.seed, stream, dropout_position(a.draw.slots[r], a.D) / 8 + c / kOctet);
      const Few<T> g = load_few<false>(static_cast<const T*>(a.dy) + r * a.D + c, n);
      for (int e = 0; e < S::kEach; ++e) {
        const bool kept = !drops || dropout_bits(block, c % kOctet + e) >= a.draw.rate.threshold;
        if (kept) table[v][lane * S::kEach + e] += g.at(e) * static_cast<A>(a.draw.rate.scale);
      }
    }
  }
  for (int64_t v = first; v <= a.V && v < first + kIds; ++v) {
    A* into = v < a.V ? static_cast<A*>(a.d_table) : static_cast<A*>(a.d_cls);
    if (!into) continue;
    if (v < a.V) into += v * a.D;
    for (int e = 0; e < n; ++e) into[c + e] += table[v - first][lane * S::kEach + e];
  }
}

unsigned blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

template <class T, bool kVector, bool kDropout>
cudaError_t start_sums(const EmbedGradientArguments& a, cudaStream_t stream) {
  using S = Slice<T>;
  const size_t shared = 32 * sizeof(PhiloxBlock) + (a.V + 1) * S::kColumns * sizeof(typename S::A);
  const auto kernel = embed_sums_kernel<T, kVector, kDropout>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(a.parts), blocks(a.D, S::kColumns));
  kernel<<<grid, 32, shared, stream>>>(a);
  return cudaSuccess;
}

template <class T>
cudaError_t start(const EmbedGradientArguments& a, cudaStream_t stream) {
  using S = Slice<T>;
  using A = typename S::A;
  if (a.parts == 0) {
    embed_search_kernel<T><<<dim3(blocks(a.V + 1, kIds), blocks(a.D, S::kColumns)), 32, 0, stream>>>(a);
    return cudaSuccess;
  }
  const bool vector = a.D % S::kEach == 0 && reinterpret_cast<uintptr_t>(a.dy) % (S::kEach * sizeof(T)) == 0;
  const bool dropout = a.draw.rate.threshold != 0;
  const cudaError_t error =
      vector    ? dropout ? start_sums<T, true, true>(a, stream) : start_sums<T, true, false>(a, stream)
         : dropout ? start_sums<T, false, true>(a, stream)
                : start_sums<T, false, false>(a, stream);
  if (error != cudaSuccess) return error;
  embed_parts_kernel<A><<<dim3(blocks(a.D, 32), static_cast<unsigned>(a.V + 1)), dim3(32, 8), 0, stream>>>(a);
  return cudaSuccess;
}

}  // namespace

cudaError_t embed_table_backward(const EmbedGradientArguments& a, cudaStream_t stream) {
  if (a.T == 0 || (!a.d_table && !a.d_cls)) return cudaSuccess;
  if (a.element == 2) return start<__nv_bfloat16>(a, stream);
  return a.element == 4 ? start<float>(a, stream) : start<double>(a, stream);
}

}  // namespace lra
