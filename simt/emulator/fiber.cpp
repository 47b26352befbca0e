// Fibers: a page of guard below each stack, and a switch of twenty instructions on x86-64.
#include "reprise/simt/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "reprise/core/error.h"
#include "reprise/simt/emulator/sanitizer.h"

#if !REPRISE_SIMT_USE_UCONTEXT
// Saves what a call must preserve on the stack that is left and takes it from the stack that is entered.
extern "C" void reprise_simt_switch(void** save_stack_pointer, void* stack_pointer);
asm(R"(
.text
.p2align 4
.globl reprise_simt_switch
.hidden reprise_simt_switch
.type reprise_simt_switch, @function
reprise_simt_switch:
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
.size reprise_simt_switch, . - reprise_simt_switch
)");
#endif

namespace reprise::simt {
namespace {

constexpr size_t cache_line_bytes = 64;
constexpr size_t stack_offsets = 32;  // times 192 bytes: spread over 6 KiB

}  // namespace

Fiber::Fiber() : tsan_fiber_(sanitizer::current_fiber()) {}

Fiber::Fiber(void (*entry)(), size_t stack_bytes, size_t number) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const size_t offset = number % stack_offsets * 3 * cache_line_bytes;
  mapping_bytes_ = (stack_bytes + offset + page - 1) / page * page + page;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  check(mapping != MAP_FAILED, "emulator: no memory for the stack of a thread, ", mapping_bytes_, " bytes");
  mapping_ = static_cast<char*>(mapping);
  mprotect(mapping_, page, PROT_NONE);
  char* top = mapping_ + mapping_bytes_ - offset;
  stack_ = mapping_ + page;
  stack_bytes_ = size_t(top - mapping_) - page;
  tsan_fiber_ = sanitizer::create_fiber();
#if REPRISE_SIMT_USE_UCONTEXT
  getcontext(&context_);
  context_.uc_stack.ss_sp = mapping_ + page;
  context_.uc_stack.ss_size = stack_bytes_;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#else
  constexpr int saved_registers = 6;
  auto** slot = reinterpret_cast<void**>(top);
  *--slot = nullptr;  // the return address of entry: there is nothing above it
  *--slot = reinterpret_cast<void*>(entry);
  for (int i = 0; i < saved_registers; ++i) *--slot = nullptr;
  stack_pointer_ = slot;
#endif
}

Fiber::~Fiber() {
  if (!mapping_) return;
  sanitizer::unpoison(mapping_, mapping_bytes_);
  munmap(mapping_, mapping_bytes_);
  sanitizer::destroy_fiber(tsan_fiber_);
}

void Fiber::switch_to(Fiber& to) {
  sanitizer::start_switch(&asan_fake_stack_, to.stack_, to.stack_bytes_);
  sanitizer::switch_to_fiber(to.tsan_fiber_);
#if REPRISE_SIMT_USE_UCONTEXT
  swapcontext(&context_, &to.context_);
#else
  reprise_simt_switch(&stack_pointer_, to.stack_pointer_);
#endif
  sanitizer::finish_switch(asan_fake_stack_, nullptr, nullptr);
}

void Fiber::entered(Fiber& from) {
  const void* stack = nullptr;
  size_t bytes = 0;
  sanitizer::finish_switch(nullptr, &stack, &bytes);
  if (!from.stack_) {
    from.stack_ = stack;
    from.stack_bytes_ = bytes;
  }
}

}  // namespace reprise::simt
