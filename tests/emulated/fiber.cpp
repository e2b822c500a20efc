#include "fiber.h"

#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

// swapcontext would also ask the system for its mask of signals, every time.
#ifdef __x86_64__
extern "C" void lra_emulated_switch(void** save, void* load);
asm(R"(
.text
.type lra_emulated_switch, @function
lra_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lra_emulated_switch, .-lra_emulated_switch
)");
#endif

namespace lra::emulated {

void forget([[maybe_unused]] unsigned char* stacks, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stacks, bytes);
#endif
}

void prepare(Fiber& fiber, unsigned char* stack, size_t bytes, void (*entry)()) {
#ifdef __x86_64__
  auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16);
  *--top = nullptr;  // where entry() would return to; the stack is then as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.stack_pointer = top;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#endif
}

void switch_fiber(Fiber& from, Fiber& to) {
#ifdef __x86_64__
  lra_emulated_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
}

}  // namespace lra::emulated
