// Working memory of CPU kernels: each thread's own, kept from call to call, and aligned to 64 bytes so that
// the library's products give the same bits every time.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace lra {

inline int64_t scratch_round(int64_t elements) { return (elements + 15) / 16 * 16; }

// At least so many elements, until the thread's next call.
template <class T>
T* scratch_of(int64_t elements) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<T, Free> memory;
  thread_local int64_t size = 0;
  if (size < elements) {
    memory.reset(
        static_cast<T*>(std::aligned_alloc(64, static_cast<size_t>(scratch_round(elements)) * sizeof(T))));
    if (!memory) throw std::bad_alloc();
    size = elements;
  }
  return memory.get();
}

// Hands it out piece by piece, each aligned.
template <class T>
class ScratchPieces {
 public:
  explicit ScratchPieces(int64_t elements) : at_(scratch_of<T>(elements)) {}
  T* take(int64_t elements) {
    T* piece = at_;
    at_ += scratch_round(elements);
    return piece;
  }

 private:
  T* at_;
};

}  // namespace lra
