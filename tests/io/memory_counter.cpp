// operator new and delete of io_tests, which count.
#include "reprise/tests/io/memory_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> live{0}, highest{0};

}  // namespace

void* operator new(size_t bytes) {
  void* address = std::malloc(bytes);
  if (address == nullptr) throw std::bad_alloc();
  int64_t now = live += int64_t(malloc_usable_size(address));
  if (now > highest) highest = now;
  return address;
}

// A sanitizer has a nothrow operator new of its own: without this one, its blocks would come to the delete below.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) { return nullptr; }
}

void operator delete(void* address) noexcept {
  if (address != nullptr) live -= int64_t(malloc_usable_size(address));
  std::free(address);
}

void operator delete(void* address, size_t) noexcept { operator delete(address); }

namespace reprise::testing {

MemoryCounter::MemoryCounter() : before_(live) { highest = before_; }

int64_t MemoryCounter::peak() const { return highest - before_; }

}  // namespace reprise::testing
