// The emulated device's memory: which addresses are device memory, and how the host is kept from them.
//
// What is handed out is filled with NaN. It lies in a region of its own (emulated_region.h), where kernels that reach beside
// what is in use are reported; in a sanitizer's build each allocation is a heap block of exactly the size asked for, and under
// AddressSanitizer what lies idle in the allocator's cache is poisoned. With REPRISE_EMULATOR_GUARD=1 it is out of reach while
// no kernel and no copy runs: host code that reads a device pointer dies there, with a message.
#pragma once

#include <cstddef>

namespace reprise::cuda::emulated {

enum class MemoryKind { pageable, pinned, device };

/// Null if there is not enough. Zero bytes are an error of the caller.
void* obtain_memory(MemoryKind kind, int device, size_t bytes);
void free_memory(void* data) noexcept;

/// What [data, data + bytes) is. Error if it begins in device or pinned memory and goes on behind its end.
MemoryKind kind_of(const void* data, size_t bytes);

size_t device_bytes(int device);  ///< in use

/// In use from here on (and holding NaN), or idle.
void mark(void* data, size_t bytes, bool in_use) noexcept;

/// Device memory is in reach while one lives.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
};

}  // namespace reprise::cuda::emulated
