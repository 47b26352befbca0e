// How much memory a piece of code takes at most: this program's operator new counts.
#pragma once

#include <cstdint>

namespace reprise::testing {

/// Counts from its construction, on all threads.
class MemoryCounter {
 public:
  MemoryCounter();
  int64_t peak() const;  ///< bytes more than at the start
 private:
  int64_t before_;
};

}  // namespace reprise::testing
