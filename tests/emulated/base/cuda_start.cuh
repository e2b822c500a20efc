// src/base/cuda_start.cuh on the emulator.
#pragma once
#include <functional>

#include <cuda_runtime.h>

namespace lra {

struct Launch {
  dim3 grid, block;
  cudaStream_t stream = nullptr;
  size_t shared_bytes = 0;
  const char* file = __builtin_FILE();  // where it is written
  int line = __builtin_LINE();
};

template <class... Parameters, class... Arguments>
void start_kernel(void (*kernel)(Parameters...), const Launch& on, Arguments&&... arguments) {
  emulated::run({on.grid, on.block, on.shared_bytes, {on.file, on.line}, [&] { kernel(arguments...); }});
}

template <class T = unsigned char, int kBoundary = 128>
T* dynamic_shared() {
  static_assert(kBoundary <= 1024, "where it begins");
  return reinterpret_cast<T*>(emulated::dynamic_shared_memory());
}

}  // namespace lra
