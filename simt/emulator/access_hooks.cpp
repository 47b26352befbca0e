// Checks of each load and store of shared and device memory. Kernels compiled with
//   -fsanitize=kernel-address --param asan-instrumentation-with-call-threshold=0 --param asan-stack=0
//   --param asan-globals=0 -DREPRISE_SIMT_ACCESS_CHECKS
// call these functions before each access: the compiler's interface to a sanitizer that is part of the
// program. Kernels compiled without it never come here.
#include <cstddef>

#include "reprise/core/cuda/emulated_region.h"
#include "reprise/simt/emulator/block.h"
#include "reprise/simt/emulator/sanitizer.h"

#if !REPRISE_SIMT_WITH_ASAN  // which has functions of these names

namespace reprise::simt {
namespace {

const cuda::emulated::Region& device = cuda::emulated::region;

void note(const void* address, size_t bytes, bool store) {
  Block* block = running_block;
  if (!block) return;
  if (block->shared().contains(address))
    block->note_access(address, bytes, store);
  else if (device.contains(address) && !device.is_in_use(address, bytes))
    block->note_stray(address, bytes, store);
}

/// The same for the sizes of machine words, fast where all is well.
template <size_t bytes>
void note(const void* address, bool store) {
  Block* block = running_block;
  if (!block) return;
  if (block->shared().contains(address)) {
    if (!block->shared().is_written<bytes>(address)) block->note_access(address, bytes, store);
  } else if (device.contains(address) && !device.is_in_use(address, bytes)) {
    block->note_stray(address, bytes, store);
  }
}

}  // namespace
}  // namespace reprise::simt

extern "C" {
void __asan_load1_noabort(void* address) { reprise::simt::note<1>(address, false); }
void __asan_load2_noabort(void* address) { reprise::simt::note<2>(address, false); }
void __asan_load4_noabort(void* address) { reprise::simt::note<4>(address, false); }
void __asan_load8_noabort(void* address) { reprise::simt::note<8>(address, false); }
void __asan_load16_noabort(void* address) { reprise::simt::note<16>(address, false); }
void __asan_loadN_noabort(void* address, size_t bytes) { reprise::simt::note(address, bytes, false); }
void __asan_store1_noabort(void* address) { reprise::simt::note<1>(address, true); }
void __asan_store2_noabort(void* address) { reprise::simt::note<2>(address, true); }
void __asan_store4_noabort(void* address) { reprise::simt::note<4>(address, true); }
void __asan_store8_noabort(void* address) { reprise::simt::note<8>(address, true); }
void __asan_store16_noabort(void* address) { reprise::simt::note<16>(address, true); }
void __asan_storeN_noabort(void* address, size_t bytes) { reprise::simt::note(address, bytes, true); }
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const void*) {}
void __asan_after_dynamic_init() {}
}
#endif
