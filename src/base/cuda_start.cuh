// How .cu files start kernels and reach dynamic shared memory. Plain C++ has no words for either, so that
// tests/emulated has a header of the same name that does the same on a CPU.
//
//   start_kernel(norm_kernel<float>, {grid, block, stream}, arguments…);
//   start_kernel(attention_kernel, {grid, block, stream, bytes}, arguments…);
//   auto* tile = dynamic_shared<__nv_bfloat16>();   // in the kernel
#pragma once
#include <algorithm>
#include <utility>

#include <cuda_runtime.h>

namespace lra {

struct Launch {
  dim3 grid, block;
  cudaStream_t stream = nullptr;
  size_t shared_bytes = 0;  // dynamic
};

// A block has 48 KiB of shared memory, static and dynamic together, unless the kernel is granted more. Grants
// only grow: a captured graph may still hold a larger launch of the same kernel.
template <class Kernel>
void grant_shared_memory(Kernel kernel, size_t dynamic_bytes) {
  cudaFuncAttributes has{};
  if (cudaFuncGetAttributes(&has, kernel) != cudaSuccess) return;
  if (has.sharedSizeBytes + dynamic_bytes <= 48 * 1024) return;
  const auto granted = std::max(static_cast<int>(dynamic_bytes), has.maxDynamicSharedSizeBytes);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, granted);
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
}

// Errors are left for cudaGetLastError.
template <class... Parameters, class... Arguments>
void start_kernel(void (*kernel)(Parameters...), const Launch& on, Arguments&&... arguments) {
  constexpr size_t kSurely = 16 * 1024;  // no kernel has more than 32 KiB of static shared memory
  if (on.shared_bytes > kSurely) grant_shared_memory(kernel, on.shared_bytes);
  kernel<<<on.grid, on.block, on.shared_bytes, on.stream>>>(std::forward<Arguments>(arguments)...);
}

// The block's dynamic shared memory; a source file's kernels all have it on the same boundary.
template <class T = unsigned char, int kBoundary = 128>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(kBoundary) unsigned char lra_dynamic_shared[];
  return reinterpret_cast<T*>(lra_dynamic_shared);
}

}  // namespace lra
