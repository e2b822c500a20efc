// Stacks that one operating system thread switches between.
#pragma once
#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace lra::emulated {

struct Fiber {
#ifdef __x86_64__
  void* stack_pointer;
#else
  ucontext_t context;
#endif
};

// Makes a fiber that begins in entry(), which must not return.
void prepare(Fiber& fiber, unsigned char* stack, size_t bytes, void (*entry)());
// After fibers on this memory were left for good: a sanitizer forgets what they had there.
void forget(unsigned char* stacks, size_t bytes);
// Leaves the fiber that runs in `from` and goes on in `to`.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace lra::emulated
