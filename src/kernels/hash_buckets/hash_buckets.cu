// CUDA side of hash_buckets.h, all but bfloat16 on tensor cores (hash_products.cu). A block has a head of
// neighbouring positions, whose vectors lie in shared memory, and goes through the rounds and their columns,
// a tile at a time. A thread has the products of a few vectors and a few columns, and of each vector the best
// score so far; at the end of a round the threads side by side agree on the best of theirs. Every score is
// one sum, from the first element to the last.
#include "kernels/hash_buckets/hash_best.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

template <class A>
struct alignas(16) Quad {
  A of[4];
};
template <class A>
__device__ inline Quad<A>& quad(A* at) {
  return *reinterpret_cast<Quad<A>*>(at);
}
template <class A>
__device__ inline const Quad<A>& quad(const A* at) {
  return *reinterpret_cast<const Quad<A>*>(at);
}

template <class T, int kVectors_, bool kAligned_>
struct Variant {
  using Element = T;
  static constexpr int kVectors = kVectors_;  // of a thread
  static constexpr bool kAligned = kAligned_;
  static constexpr int kPositions = kHashWarps * kHashDown * kVectors;  // of a block
  static constexpr int kBlocks = sizeof(T) == 8 ? 2 : 4;                // on a multiprocessor
};

// Columns first … first + kHashTile − 1 of a round, their elements from … from + count − 1; zeros beyond the
// last of both.
template <bool kAligned, class A>
__device__ void load_tile(const HashBucketsArguments& a, int round, int first, int from, int count, A* tile) {
  const int quads = (count + 3) / 4;
  const A* matrix = static_cast<const A*>(a.matrix) + int64_t{round} * a.columns * a.width + from;
  for (int i = static_cast<int>(threadIdx.x); i < kHashTile * (kHashSlice / 4); i += kHashThreads) {
    const int row = i / (kHashSlice / 4), k = i % (kHashSlice / 4) * 4;
    if (k >= 4 * quads) continue;
    Quad<A> values = {};
    if (first + row < a.columns) {
      const A* source = matrix + int64_t{first + row} * a.width + k;
      if constexpr (kAligned) {
        values = quad(source);
      } else {
#pragma unroll
        for (int n = 0; n < 4; ++n) values.of[n] = k + n < count ? source[n] : A(0);
      }
    }
    quad(tile + row * kHashMatrixPitch + k) = values;
  }
}

template <class V, class A>
__device__ void load_vectors(const HashBucketsArguments& a, int64_t first, int pitch, A* vectors) {
  using T = typename V::Element;
  const int octets = (a.width + kOctet - 1) / kOctet;
  const T* head = static_cast<const T*>(a.q) + static_cast<int64_t>(blockIdx.y) * a.width;
  for (int i = static_cast<int>(threadIdx.x); i < V::kPositions * octets; i += kHashThreads) {
    const int row = i / octets, column = (i - row * octets) * kOctet;
    const bool there = first + row < a.positions;
    Quad<A> halves[2];
    A values[kOctet];
    widen(
        load_octet<V::kAligned>(there ? head + (first + row) * a.stride : head, column, there ? a.width : 0),
        values);
#pragma unroll
    for (int n = 0; n < kOctet; ++n) halves[n / 4].of[n % 4] = values[n];
    quad(vectors + row * pitch + column) = halves[0];
    quad(vectors + row * pitch + column + 4) = halves[1];
  }
}

template <class V>
__global__ void __launch_bounds__(kHashThreads, V::kBlocks) hash_kernel(HashBucketsArguments a) {
  using A = Accumulator<typename V::Element>;
  constexpr int kVectors = V::kVectors;
  __shared__ HashPlace places[V::kPositions];
  A* tile = dynamic_shared<A>();                     // [kHashTile, kHashMatrixPitch]
  A* vectors = tile + kHashTile * kHashMatrixPitch;  // [kPositions, pitch]
  const int pitch = (a.width + 7) / 8 * 8 + 4;       // hash_vector_pitch
  const int64_t first = static_cast<int64_t>(blockIdx.x) * V::kPositions;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int row = thread / 32 * kHashDown * kVectors + lane / kHashAcross, across = lane % kHashAcross;
  int columns = 0;  // of the position that is this thread's to look up
  if (thread < V::kPositions) {
    places[thread] = first + thread < a.positions ? place_of(a, first + thread) : HashPlace{0, 0};
    columns = places[thread].half;
  }
  load_vectors<V>(a, first, pitch, vectors);
  __syncthreads();
  int half[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) half[v] = places[row + v * kHashDown].half;
  for (int round = 0; round < a.rounds; ++round) {
    HashBest<A> best[kVectors];
    for (int left = 0; left < a.columns; left += kHashTile) {
      // Also: nobody reads the tile before any more.
      if (!__syncthreads_or(columns > left)) break;
      A sums[kVectors][kHashEach] = {};
      for (int from = 0; from < a.width; from += kHashSlice) {
        const int count = a.width - from < kHashSlice ? a.width - from : kHashSlice;
        if (from > 0) __syncthreads();
        load_tile<V::kAligned>(a, round, left, from, count, tile);
        __syncthreads();
        const A *mine = vectors + row * pitch + from, *theirs = tile + across * kHashMatrixPitch;
#pragma unroll 1
        for (int k = 0; k < count; k += 4) {
          Quad<A> x[kVectors];
#pragma unroll
          for (int v = 0; v < kVectors; ++v) x[v] = quad(mine + v * kHashDown * pitch + k);
#pragma unroll
          for (int c = 0; c < kHashEach; ++c) {
            const Quad<A> w = quad(theirs + c * kHashAcross * kHashMatrixPitch + k);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
#pragma unroll
              for (int v = 0; v < kVectors; ++v) sums[v][c] += x[v].of[n] * w.of[n];
            }
          }
        }
      }
#pragma unroll
      for (int c = 0; c < kHashEach; ++c) {
        const int column = left + across + c * kHashAcross;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          const auto rank = rank_of(sums[v][c]);
          if (column < half[v] && rank > best[v].rank) best[v] = {rank, column};
        }
      }
    }
    store_buckets<kHashDown>(a, {round, first, row}, best, half, places);
  }
}

template <class T, int kVectors>
void start(const HashBucketsArguments& a, cudaStream_t stream) {
  const bool aligned = all_aligned(a.width, a.q, a.matrix) && a.stride % kOctet == 0;
  const auto with = [&](auto variant) {
    using V = decltype(variant);
    const dim3 grid(static_cast<unsigned>((a.positions + V::kPositions - 1) / V::kPositions),
                    static_cast<unsigned>(a.heads));
    const auto bytes = static_cast<size_t>(hash_shared_bytes(kVectors, a.width, a.element));
    start_kernel(hash_kernel<V>, {grid, dim3(kHashThreads), stream, bytes}, a);
  };
  aligned ? with(Variant<T, kVectors, true>()) : with(Variant<T, kVectors, false>());
}

template <class T>
int start(const HashBucketsArguments& a, cudaStream_t stream) {
  switch (hash_vectors(a.width, a.element)) {
    case 4:
      start<T, 4>(a, stream);
      break;
    case 2:
      start<T, 2>(a, stream);
      break;
    case 1:
      start<T, 1>(a, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

int hash_launch(const HashBucketsArguments& a, CudaStream stream) {
  if (a.positions == 0 || a.heads == 0 || a.rounds == 0) return 0;
  const auto s = static_cast<cudaStream_t>(stream);
  if (hash_products_serve(a)) return start_hash_products(a, s);
  if (a.element == 2) return start<__nv_bfloat16>(a, s);
  if (a.element == 4) return start<float>(a, s);
  return start<double>(a, s);
}

const bool registered = (hash_buckets_cuda = hash_launch, true);

}  // namespace
}  // namespace lra
