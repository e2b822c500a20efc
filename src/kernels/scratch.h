// Working memory of a thread, for CPU kernels.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace lra {

// Aligned so that the library's products give the same bits every time; valid until the thread asks for more.
template <class T>
T* scratch_of(int64_t elements) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<T, Free> memory;
  thread_local int64_t size = 0;
  if (size < elements) {
    memory.reset(
        static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(elements) * sizeof(T) + 63) / 64 * 64)));
    if (!memory) throw std::bad_alloc();
    size = elements;
  }
  return memory.get();
}

}  // namespace lra
