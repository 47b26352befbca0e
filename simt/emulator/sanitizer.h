// What AddressSanitizer and ThreadSanitizer must be told about fibers and shared memory. Nothing in builds
// without them. The runtime itself is compiled without sanitizers, with REPRISE_SIMT_ASAN or
// REPRISE_SIMT_TSAN defined where kernels are compiled with them: so its own reads and writes are neither
// slowed nor reported.
#pragma once

#include <cstddef>

// The checks of access_hooks.cpp use AddressSanitizer's interface, and compilers define its macro for them.
#if (defined(__SANITIZE_ADDRESS__) && !defined(REPRISE_SIMT_ACCESS_CHECKS)) || defined(REPRISE_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define REPRISE_SIMT_WITH_ASAN 1
#else
#define REPRISE_SIMT_WITH_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || defined(REPRISE_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#define REPRISE_SIMT_WITH_TSAN 1
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#else
#define REPRISE_SIMT_WITH_TSAN 0
#endif

namespace reprise::simt::sanitizer {

inline constexpr bool address = REPRISE_SIMT_WITH_ASAN;
inline constexpr bool thread = REPRISE_SIMT_WITH_TSAN;

#if REPRISE_SIMT_WITH_ASAN
inline void poison(void* data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
inline void unpoison(void* data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
inline void start_switch(void** fake_stack, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
inline void finish_switch(void* fake_stack, const void** old_stack, size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_bytes);
}
#else
inline void poison(void*, size_t) {}
inline void unpoison(void*, size_t) {}
inline void start_switch(void**, const void*, size_t) {}
inline void finish_switch(void*, const void**, size_t*) {}
#endif

// What a fiber did before it released a token happens before what another does after it acquired it.
#if REPRISE_SIMT_WITH_TSAN
inline void acquire(void* token) { __tsan_acquire(token); }
inline void release(void* token) { __tsan_release(token); }
inline void* current_fiber() { return __tsan_get_current_fiber(); }
inline void* create_fiber() { return __tsan_create_fiber(0); }
inline void destroy_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void switch_to_fiber(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
inline void name_fiber(void* fiber, const char* name) { __tsan_set_fiber_name(fiber, name); }

/// While it lives, nothing that this fiber does is a race: for the runtime's calls of functions that the
/// sanitizer intercepts, such as malloc. Must not live across a switch.
class Quiet {
 public:
  Quiet() {
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
  }
  ~Quiet() {
    AnnotateIgnoreWritesEnd("", 0);
    AnnotateIgnoreReadsEnd("", 0);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};
#else
inline void acquire(void*) {}
inline void release(void*) {}
inline void* current_fiber() { return nullptr; }
inline void* create_fiber() { return nullptr; }
inline void destroy_fiber(void*) {}
inline void switch_to_fiber(void*) {}
inline void name_fiber(void*, const char*) {}

struct Quiet {
  ~Quiet() {}  // not trivial, so that an unused one is no warning
};
#endif

}  // namespace reprise::simt::sanitizer
