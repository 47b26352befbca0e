// A fiber: a stack and the registers of a function that was left in the middle.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(REPRISE_SIMT_UCONTEXT)
#define REPRISE_SIMT_USE_UCONTEXT 1
#include <ucontext.h>
#else
#define REPRISE_SIMT_USE_UCONTEXT 0
#endif

namespace reprise::simt {

class Fiber {
 public:
  /// The OS thread that constructs it, as something to switch back to.
  Fiber();

  /// A fiber that calls `entry`, which never returns, at the first switch to it. Stacks of consecutive
  /// `number`s start in different cache sets: all of a block's threads work at the same depth.
  Fiber(void (*entry)(), size_t stack_bytes, size_t number);

  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on with `to`, until something switches back to this fiber, which must be the one that runs.
  void switch_to(Fiber& to);

  /// The first thing to call in `entry`; `from` is the fiber that switched.
  static void entered(Fiber& from);

  void* race_detector_fiber() const { return tsan_fiber_; }

 private:
  void* stack_pointer_ = nullptr;
  char* mapping_ = nullptr;  // a guard page, then the stack
  size_t mapping_bytes_ = 0;
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* asan_fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
#if REPRISE_SIMT_USE_UCONTEXT
  ucontext_t context_;
#endif
};

}  // namespace reprise::simt
