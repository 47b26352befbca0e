// The emulated device's memory: a table of ranges over a region of addresses, or over the heap where a sanitizer watches that.
#include "reprise/core/cuda/emulated_memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "reprise/core/cuda/emulated_region.h"
#include "reprise/core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace reprise::cuda::emulated {
namespace {

constexpr size_t heap_alignment = 256;

struct Range {
  size_t bytes;
  MemoryKind kind;
  int device;
};

struct Table {
  std::mutex mutex;
  std::map<uintptr_t, Range> ranges;  // by first address
  std::map<int, size_t> device_bytes;
  int accesses = 0;
};

Table& table() {
  static auto* one = new Table;  // outlives every static that holds device memory
  return *one;
}

/// Sanitizers know the heap; elsewhere the region says what is in use, and the guard needs pages of its own.
bool lies_in_region(MemoryKind kind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return kind == MemoryKind::device && guard_enabled();
#else
  return kind == MemoryKind::device;
#endif
}

void poison([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes, [[maybe_unused]] bool in_use) {
#if defined(__SANITIZE_ADDRESS__)
  if (in_use)
    __asan_unpoison_memory_region(data, bytes);
  else
    __asan_poison_memory_region(data, bytes);
#endif
}

}  // namespace

void* obtain_memory(MemoryKind kind, int device, size_t bytes) {
  std::lock_guard lock(table().mutex);
  void* data = nullptr;
  if (lies_in_region(kind))
    data = region_allocate(bytes);
  else if (posix_memalign(&data, heap_alignment, bytes) != 0)
    data = nullptr;
  if (!data) return nullptr;
  region.set_in_use(data, bytes, true);
  table().ranges[reinterpret_cast<uintptr_t>(data)] = {bytes, kind, device};
  if (kind == MemoryKind::device) table().device_bytes[device] += bytes;
  return data;
}

void free_memory(void* data) noexcept {
  if (!data) return;
  std::lock_guard lock(table().mutex);
  auto found = table().ranges.find(reinterpret_cast<uintptr_t>(data));
  if (found == table().ranges.end()) return;
  Range range = found->second;
  table().ranges.erase(found);
  poison(data, range.bytes, true);
  region.set_in_use(data, range.bytes, false);
  if (range.kind == MemoryKind::device) table().device_bytes[range.device] -= range.bytes;
  if (lies_in_region(range.kind))
    region_free(data, range.bytes);
  else
    std::free(data);
}

MemoryKind kind_of(const void* data, size_t bytes) {
  auto address = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(table().mutex);
  auto next = table().ranges.upper_bound(address);
  if (next == table().ranges.begin()) return MemoryKind::pageable;
  const auto& [first, range] = *std::prev(next);
  if (address >= first + range.bytes) return MemoryKind::pageable;
  check(address + bytes <= first + range.bytes, "copy: ", bytes, " bytes at offset ", address - first,
        " of an allocation of ", range.bytes, " bytes");
  return range.kind;
}

size_t device_bytes(int device) {
  std::lock_guard lock(table().mutex);
  return table().device_bytes[device];
}

void mark(void* data, size_t bytes, bool in_use) noexcept {
  poison(data, bytes, in_use);
  region.set_in_use(data, bytes, in_use);
  if (in_use) std::memset(data, 0xff, bytes);  // NaN in every floating dtype
}

DeviceAccess::DeviceAccess() {
  if (!guard_enabled()) return;
  std::lock_guard lock(table().mutex);
  if (table().accesses++ == 0) open_guard();
}

DeviceAccess::~DeviceAccess() {
  if (!guard_enabled()) return;
  std::lock_guard lock(table().mutex);
  if (--table().accesses == 0) close_guard();
}

}  // namespace reprise::cuda::emulated
