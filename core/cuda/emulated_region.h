// Where the emulated device's memory lies: one region of address space, of which it is known, byte by byte, what is in use.
// Kernels are asked at each access (simt/emulator/access_hooks.cpp). With REPRISE_EMULATOR_GUARD=1 it is out of reach of the
// host but while the guard is open. One lock, that of emulated_memory.cpp, is held around every call that takes or gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::cuda::emulated {

bool guard_enabled();  ///< fixed when the process first asks

/// The block ends at the end of its last page, but for the alignment of its start: 256 bytes. Null if there is no room.
void* region_allocate(size_t bytes);
void region_free(void* data, size_t bytes) noexcept;

void open_guard();
void close_guard();

/// The region and its shadow: of each eight bytes, how many from their first are in use.
struct Region {
  static constexpr size_t bytes = size_t(256) << 30;  // of addresses: memory is taken where it is touched

  const char* first = nullptr;
  uint8_t* shadow =
      nullptr;  ///< null until something lies in the region, and where Linux lends no addresses for it

  size_t offset(const void* address) const { return size_t(static_cast<const char*>(address) - first); }
  bool contains(const void* address) const { return shadow && offset(address) < bytes; }

  /// Whether all of `count` bytes from an address of the region are in use.
  bool is_in_use(const void* address, size_t count) const {
    const uint8_t* group = shadow + offset(address) / 8;
    size_t end = offset(address) % 8 + count;
    for (; end > 8; end -= 8)
      if (*group++ != 8) return false;
    return *group >= end;
  }
};
extern Region region;

/// In use from here on, or idle. Ignored outside of the region.
void set_in_use(const void* data, size_t bytes, bool in_use) noexcept;

/// "8 bytes at byte 12 behind a buffer": an access of `count` bytes that are not all in use.
std::string described(const void* address, size_t count);

}  // namespace reprise::cuda::emulated
