// Barriers and fences of CUDA's vocabulary.
#pragma once

#include "reprise/simt/emulator/runtime.h"

namespace reprise::simt {

/// A barrier of all threads that have not exited; the number of those that came with a true predicate.
int block_count(bool predicate, Where where);

/// A barrier of all threads; whether none came with a true predicate.
inline bool block_none(bool predicate, Where where) { return block_count(predicate, where) == 0; }

}  // namespace reprise::simt

inline void __syncthreads(reprise::simt::Here here = reprise::simt::Here::current()) {
  reprise::simt::block_barrier(0, -1, {"__syncthreads", here});
}
inline int __syncthreads_count(int predicate, reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::block_count(predicate != 0, {"__syncthreads_count", here});
}
inline int __syncthreads_or(int predicate, reprise::simt::Here here = reprise::simt::Here::current()) {
  return !reprise::simt::block_none(predicate != 0, {"__syncthreads_or", here});
}
inline int __syncthreads_and(int predicate, reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::block_none(predicate == 0, {"__syncthreads_and", here});
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       reprise::simt::Here here = reprise::simt::Here::current()) {
  reprise::simt::warp_collective(mask, nullptr, nullptr, true, {"__syncwarp", here});
}

inline void __threadfence() { reprise::simt::fence(); }
inline void __threadfence_block() { reprise::simt::fence(); }
inline void __threadfence_system() { reprise::simt::fence(); }

inline void __nanosleep(unsigned) { reprise::simt::yield(); }

[[noreturn]] inline void __trap(reprise::simt::Here here = reprise::simt::Here::current()) {
  reprise::simt::fail({"__trap", here}, "the kernel gave up");
}
