// Guarded pages for the emulated device's memory (REPRISE_EMULATOR_GUARD=1): out of reach of the host but
// while the guard is open. One lock, that of emulated_memory.cpp, is held around every call.
#pragma once

#include <cstddef>

namespace reprise::cuda::emulated {

bool guard_enabled();  ///< fixed when the process first asks

/// The block ends at the end of its last page, but for the alignment of its start: 256 bytes.
void* guarded_allocate(size_t bytes);
void guarded_free(void* data, size_t bytes) noexcept;

void open_guard();
void close_guard();

}  // namespace reprise::cuda::emulated
