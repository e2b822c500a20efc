// How .cu files start kernels and reach dynamic shared memory. Plain C++ has no words for either, so that
// tests/emulated has a header of the same name that does the same on a CPU.
//
//   start_kernel(norm_kernel<float>, {grid, block, stream}, arguments…);
//   start_kernel(attention_kernel, {grid, block, stream, bytes}, arguments…);
//   auto* tile = dynamic_shared<__nv_bfloat16>();   // in the kernel
#pragma once
#include <utility>

#include <cuda_runtime.h>

namespace lra {

struct Launch {
  dim3 grid, block;
  cudaStream_t stream = nullptr;
  size_t shared_bytes = 0;  // dynamic; more than 48 KiB are asked for here
};

// Errors are left for cudaGetLastError.
template <class... Parameters, class... Arguments>
void start_kernel(void (*kernel)(Parameters...), const Launch& on, Arguments&&... arguments) {
  if (on.shared_bytes > 48 * 1024) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(on.shared_bytes));
  }
  kernel<<<on.grid, on.block, on.shared_bytes, on.stream>>>(std::forward<Arguments>(arguments)...);
}

// The block's dynamic shared memory, on a boundary of 128 bytes.
template <class T = unsigned char>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char lra_dynamic_shared[];
  return reinterpret_cast<T*>(lra_dynamic_shared);
}

}  // namespace lra
