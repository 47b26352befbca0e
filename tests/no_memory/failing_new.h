// The operator new of no_memory_tests, which fails when it is told to.
#pragma once

#include <cstdint>

namespace reprise::testing {

enum class Failing : uint8_t { one, all_from_it };

/// Of those made from now on, on any thread, the k-th from 0 throws std::bad_alloc, or all from it on.
void fail_allocation(int64_t k, Failing failing);
void fail_no_allocation();
int64_t failed_allocations();  ///< since the last fail_allocation
/// Counts an allocation of a library that does not use operator new; whether it is to fail.
bool next_fails();

}  // namespace reprise::testing
