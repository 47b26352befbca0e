// malloc and its kin, counted from main on: the FAULT_ALLOC-th finds no memory, with FAULT_ALWAYS all from
// there on.
#include <malloc.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "plan.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

std::atomic<long> countdown{0};  // 0: nothing fails
std::atomic<long> allocations{0};
bool always = false, counting = false;
int (*real_main)(int, char**, char**) = nullptr;

bool fails() {
  if (!counting) return false;
  long call = ++allocations;
  long at = countdown.load();
  if (at == 0 || (call != at && !(always && call > at))) return false;
  errno = ENOMEM;
  return true;
}

int counted_main(int count, char** words, char** environment) {
  if (const char* at = std::getenv("FAULT_ALLOC")) countdown = std::atol(at);
  always = std::getenv("FAULT_ALWAYS") != nullptr;
  counting = true;
  int code = real_main(count, words, environment);
  counting = false;
  if (std::getenv("FAULT_ALLOC")) fault::log_operation("allocations", -1, allocations);
  return code;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) noexcept { return fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) noexcept { return fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) noexcept { return fails() ? nullptr : __libc_realloc(old, bytes); }
void* memalign(size_t alignment, size_t bytes) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }

int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  void* found = memalign(alignment, bytes);
  if (!found) return ENOMEM;
  *result = found;
  return 0;
}

// Where a program starts: nothing before main can be made to fail, it would have no one to tell.
int __libc_start_main(int (*main)(int, char**, char**), int count, char** words, void (*init)(),
                      void (*fini)(), void (*linker_fini)(), void* stack_end) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  return fault::hidden("__libc_start_main", Start(nullptr))(counted_main, count, words, init, fini,
                                                            linker_fini, stack_end);
}
}
