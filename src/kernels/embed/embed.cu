// CUDA side of the embedding (embed.h). The gradient of the table is embed_table.cu's.
#include "kernels/embed/embed_arguments.h"
#include "kernels/embed/embed_table.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

constexpr int64_t kPlaceMask = (int64_t{1} << 24) - 1;  // Rows::slot_of
constexpr int kOctets = 8, kRows = 32;

// A block of kOctets × kRows threads stays in one slice of 64 columns, so that the table's share of it stays
// in the L1 cache; a thread writes one octet of a position at a time. kTable: rows of parameters lie on 16
// bytes.
template <class T, bool kAligned, bool kTable>
__global__ __launch_bounds__(kOctets* kRows) void embed_kernel(EmbedArguments a) {
  using A = Accumulator<T>;
  const int c = static_cast<int>(blockIdx.y * kOctets + threadIdx.x) * kOctet, width = static_cast<int>(a.D);
  if (c >= width) return;
  const auto *table = static_cast<const A*>(a.table), *cls = static_cast<const A*>(a.cls),
             *positions = static_cast<const A*>(a.positions);
  const bool drops = a.draw.rate.threshold;
  const uint64_t stream = drops ? dropout_stream(a.draw.site, *a.draw.step) : 0;
#pragma unroll 2
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y; r < a.T;
       r += static_cast<int64_t>(gridDim.x) * kRows) {
    const int64_t id = __ldg(a.tokens + r);
    A x[kOctet];
    widen(load_octet<kTable>(id == a.V ? cls : table + id * a.D, c, width), x);
    if (positions) {
      A place[kOctet];
      widen(load_octet<kTable>(positions + (__ldg(a.slots + r) & kPlaceMask) * a.D, c, width), place);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) x[i] += place[i];
    }
    if (drops) drop_out(a.draw, stream, __ldg(a.draw.slots + r), c, width, x);
    store_octet<kAligned>(static_cast<T*>(a.out) + r * a.D, c, width, narrow<T>(x));
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

template <class T>
void forward(const EmbedArguments& a, cudaStream_t stream) {
  if (a.T == 0) return;
  constexpr unsigned kBlocks = 132 * 8;  // about what a large device holds at once
  const unsigned slices = blocks(a.D, 8 * kOctets), wanted = blocks(kBlocks, slices),
                 most = blocks(a.T, kRows);
  const dim3 grid(wanted < most ? wanted : most, slices), block(kOctets, kRows);
  const auto* out = static_cast<const T*>(a.out);
  const auto *table = static_cast<const char*>(a.table), *cls = static_cast<const char*>(a.cls),
             *positions = static_cast<const char*>(a.positions);
  if (!all_aligned(a.D, out)) {
    embed_kernel<T, false, false><<<grid, block, 0, stream>>>(a);
  } else if (!all_aligned(a.D, table, cls, positions)) {
    embed_kernel<T, true, false><<<grid, block, 0, stream>>>(a);
  } else {
    embed_kernel<T, true, true><<<grid, block, 0, stream>>>(a);
  }
}

template <class T>
void positions_backward(const EmbedGradientArguments& a, cudaStream_t stream) {
  if (!a.d_positions || a.places == 0) return;
  const dim3 grid(blocks(a.D, 32 * 8), blocks(a.places, 8)), block(32, 8);
  if (all_aligned(a.D, static_cast<const T*>(a.dy))) {
    embed_positions_kernel<T, true><<<grid, block, 0, stream>>>(a);
  } else {
    embed_positions_kernel<T, false><<<grid, block, 0, stream>>>(a);
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
