// operator new and delete over the C library.
#include "reprise/tests/no_memory/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> armed{false}, goes_on{false};
std::atomic<int64_t> until_failure{0}, failed{0};

bool fails() {
  if (!armed.load(std::memory_order_relaxed)) return false;
  int64_t left = until_failure.fetch_sub(1);
  bool now = goes_on ? left <= 0 : left == 0;
  failed += now;
  return now;
}

}  // namespace

namespace reprise::testing {

void fail_allocation(int64_t k, Failing failing) {
  until_failure = k;
  failed = 0;
  goes_on = failing == Failing::all_from_it;
  armed = true;
}

void fail_no_allocation() { armed = false; }
int64_t failed_allocations() { return failed; }
bool next_fails() { return fails(); }

}  // namespace reprise::testing

void* operator new(size_t bytes, std::align_val_t alignment) {
  size_t step = size_t(alignment);
  void* data = fails() ? nullptr : std::aligned_alloc(step, (bytes + step) / step * step);
  if (!data) throw std::bad_alloc();
  return data;
}

void* operator new(size_t bytes) {
  void* data = fails() ? nullptr : std::malloc(bytes);
  if (!data) throw std::bad_alloc();
  return data;
}

// A sanitizer has a nothrow operator new of its own: without this one, its blocks would come to the delete below.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : std::malloc(bytes);
}

void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
