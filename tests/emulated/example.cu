#include "base/cuda_start.cuh"
#include "example.h"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/mma.cuh"
#include "kernels/rows/wgmma.cuh"

namespace lra {
namespace {

__global__ void product_kernel(ExampleProduct p) {
  auto* a = dynamic_shared<__nv_bfloat16>();  // [16, 16]
  auto* b = a + 256;                          // [16, 8], or [8, 16]
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  copy_async<16>(a + 8 * lane, static_cast<const __nv_bfloat16*>(p.a) + 8 * lane);
  copy_async_or_zero<16>(b + 8 * lane, static_cast<const __nv_bfloat16*>(p.b) + 8 * lane, lane < 16);
  copy_async_commit();
  if (p.waits) copy_async_wait();
  __syncwarp();
  uint32_t left[4], right[2];
  load_tiles(left, a + lane % 16 * 16 + lane / 16 * 8);
  if (p.transposed) {
    load_tiles(right, b + lane % 8 * 16 + lane / 8 % 2 * 8);
  } else {
    load_tiles_transposed(right, b + lane % 16 * 8);
  }
  float c[4] = {};
  mma_bf16(c, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) p.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}

__global__ void reverse_kernel(ExampleReverse r) {
  __shared__ int values[1024];
  const int i = static_cast<int>(threadIdx.x);
  const int* in = r.in + static_cast<int>(blockIdx.x) * r.threads;
  values[i] = in[i];
  if (r.barrier) __syncthreads();
  r.out[static_cast<int>(blockIdx.x) * r.threads + i] = values[r.threads - 1 - i];
}

__global__ void warp_kernel(ExampleWarp w) {
  constexpr unsigned kAll = 0xffffffffu;
  const int i = static_cast<int>(threadIdx.x);
  int* out = w.out + i * 6;
  out[0] = __shfl_xor_sync(kAll, i, 5);
  out[1] = __shfl_up_sync(kAll, i, 3);
  out[2] = __shfl_down_sync(kAll, i, 3, 8);
  out[3] = __shfl_sync(kAll, i, 2, 4);
  out[4] = static_cast<int>(__ballot_sync(kAll, i % 3 == 0));
  out[5] = static_cast<int>(__match_any_sync(kAll, i % 5));
}

__global__ void mistake_kernel(ExampleMistake m) {
  const auto i = static_cast<int>(threadIdx.x);
  switch (m.mistake) {
    case Mistake::kHalfAtTheBarrier:
      if (i < 40) {
        __syncthreads();
      } else {
        team_barrier<64>(1);
      }
      return;
    case Mistake::kTwoBarriers:
      if (i < 40) {
        __syncthreads();
      } else {
        __syncthreads();
      }
      return;
    case Mistake::kLaneThatEnded:
      if (i != 3) __syncwarp();
      return;
    case Mistake::kTrap:
      if (i == 7) __trap();
      return;
    case Mistake::kLargeBlock:
      return;
    case Mistake::kHiddenTile: {
      auto* tile = dynamic_shared<__nv_bfloat16, 1024>();
      uint32_t a[4][4] = {};
      float c[2][4] = {};
      store_tiles(tile + i % 32 * 64, a[0]);
      __syncthreads();
      multiply_columns_async(c, a, group_tile(tile));
      return;
    }
  }
}

const bool registered = [] {
  example_product = [](const ExampleProduct& p, CudaStream) -> int {
    start_kernel(product_kernel, {1, 32, nullptr, 1024}, p);
    return cudaGetLastError();
  };
  example_reverse = [](const ExampleReverse& r, CudaStream) -> int {
    start_kernel(reverse_kernel, {static_cast<unsigned>(r.blocks), static_cast<unsigned>(r.threads)}, r);
    return cudaGetLastError();
  };
  example_warp = [](const ExampleWarp& w, CudaStream) -> int {
    start_kernel(warp_kernel, {1, static_cast<unsigned>(w.threads)}, w);
    return cudaGetLastError();
  };
  example_mistake = [](const ExampleMistake& m, CudaStream) -> int {
    start_kernel(mistake_kernel, {2, m.mistake == Mistake::kLargeBlock ? 1025u : 64u, nullptr, 8192}, m);
    return cudaGetLastError();
  };
  return true;
}();

}  // namespace
}  // namespace lra
