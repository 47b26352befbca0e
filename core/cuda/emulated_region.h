// Where the emulated device's memory lies: one region of address space, of which it is known, byte by byte, what is in use.
// Kernels are asked at each access (simt/emulator/access_hooks.cpp), copies at their turn. With REPRISE_EMULATOR_GUARD=1 it is
// out of reach of the host but while the guard is open. One lock, that of emulated_memory.cpp, is held around every call that
// takes or gives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::cuda::emulated {

bool guard_enabled();  ///< fixed when the process first asks

/// The block ends at the end of a page, but for the alignment of its start: 256 bytes. A page behind it is never in use.
/// Null if there is no room.
void* region_allocate(size_t bytes);
void region_free(void* data, size_t bytes) noexcept;

void open_guard();
void close_guard();

/// The region and its shadow: of each eight bytes, how many from their first are in use.
class Region {
 public:
  bool contains(const void* address) const {
    return offset(address) < bytes_.load(std::memory_order_acquire);
  }

  /// Whether all of `count` bytes from an address of the region are in use.
  bool is_in_use(const void* address, size_t count) const {
    const size_t first = offset(address);
    if (first + count > used_.load(std::memory_order_acquire)) return false;
    const uint8_t* group = shadow_ + first / 8;
    size_t end = first % 8 + count;
    for (; end > 8; end -= 8)
      if (*group++ != 8) return false;
    return *group >= end;
  }

  /// In use from here on, or idle. Ignored outside of the region.
  void set_in_use(const void* data, size_t bytes, bool in_use) noexcept;

  /// "4 bytes at byte 0 behind a buffer": an access of `count` bytes that are not all in use.
  std::string described(const void* address, size_t count) const;

 private:
  friend class Pages;
  size_t offset(const void* address) const { return size_t(static_cast<const char*>(address) - first_); }

  char* first_ = nullptr;
  uint8_t* shadow_ = nullptr;
  std::atomic<size_t> bytes_ = 0, used_ = 0;  // of addresses, and of those that have ever been given out
};
extern constinit Region region;

}  // namespace reprise::cuda::emulated
