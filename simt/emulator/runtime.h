// What the emulator's vocabulary and its models of PTX instructions ask of the scheduler, which runs each
// CUDA thread of a block as one fiber of one OS thread: a thread runs until it waits for others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

#include "reprise/core/error.h"

namespace reprise::simt {

/// The call site in the kernel; the last, defaulted parameter of every function that may fail or wait.
using Here = std::source_location;

/// What a thread does and where, for reports.
struct Where {
  const char* what;  ///< "__syncthreads"
  Here here = Here::current();
};

/// What inline code needs of the running thread; set whenever the scheduler changes threads.
struct ThreadState {
  unsigned lane;    ///< in the warp
  unsigned warp;    ///< in the block
  unsigned linear;  ///< in the block
  unsigned spins;   ///< atomics and fences since the thread last let others run
};
inline constinit thread_local ThreadState self{};

/// Throws the Error that the launch will end with: kernel, block, thread, place, message.
[[noreturn]] void fail_at(Where where, const std::string& message);

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(Where where, const Parts&... parts) {
  fail_at(where, reprise::detail::join(parts...));
}

/// What a GPU demands of the address of one access of so many bytes. `which`: "source".
inline void check_aligned(const void* address, size_t bytes, const char* which,
                          Where where = {"a wide access"}) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fail(where, which, " ", address, " is not ", bytes, "-byte aligned");
}

/// Waits until `threads` threads have come to barrier `id` (0 to 15); all that have not exited if negative.
void block_barrier(int id, int threads, Where where);

/// Counts as having come to the barrier, without waiting.
void bar_arrive(int id, int threads, Where where);

/// `lanes[i]` is the argument record of lane i, for the lanes of `arrived`.
using Collective = void (*)(void** lanes, uint32_t arrived);

/// Waits until every lane of `mask` that has not exited is here; then `collective` (null: nothing) runs once
/// over all their records. Reading and writing the records is the collective's only traffic: it must be
/// compiled without sanitizers. `orders_memory`: what lanes wrote before is seen by the others after.
void warp_collective(uint32_t mask, void* record, Collective collective, bool orders_memory, Where where);

/// Waits until `predicate(context)`, which must have no effects.
void wait_until(bool (*predicate)(void*), void* context, Where where);

/// Queues an operation that runs later: when no thread can go on, or at a random moment in random order.
void async_submit(std::function<void()> operation);

/// After an operation that may have let others go on: in reverse and random order, they may go first.
void preempt();

/// Lets every other thread of the block that can run go first.
void yield();

/// A number that no other block of this OS thread has had: what a model keeps between calls belongs to one
/// block.
uint64_t block_serial();

/// Orders memory between threads, as __threadfence.
void fence();

/// Counts a look at something that another thread may change; after many of them, yields.
void spin();

/// The block's static array with this tag, the same for all its threads.
void* shared_static(const void* tag, size_t bytes, size_t alignment, Where where);
void* shared_dynamic();

/// The address in the shared window, as __cvta_generic_to_shared; fails if it is not `bytes` of shared
/// memory.
uint32_t shared_offset(const void* address, size_t bytes, Where where);
void* shared_ptr(uint32_t offset, size_t bytes, Where where);

/// For models, which are compiled without the checks of shared memory: bytes that an asynchronous operation
/// has stored, and bytes that it will store some time after now, which no thread may read until then.
void shared_written(void* address, size_t bytes);
void shared_undefined(void* address, size_t bytes);

/// A cp.async in flight: the bytes read when it was issued, stored when it is waited for.
struct CpAsync {
  void* to;
  unsigned bytes;      ///< 4, 8 or 16
  unsigned group = 0;  ///< set by cp_async_push
  alignas(16) std::array<unsigned char, 16> data;
};
void cp_async_push(const CpAsync& copy);
void cp_async_commit_group();
/// Stores all but the newest `keep` committed groups; negative: everything, committed or not.
void cp_async_wait(int keep);

/// Counts an ldmatrix phase: eight rows of 16 bytes at these offsets, which should hit 8 different bank
/// groups.
void count_matrix_rows(const std::array<uint32_t, 8>& offsets);

}  // namespace reprise::simt
