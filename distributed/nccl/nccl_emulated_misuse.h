// What is done with NCCL's double that NCCL does not allow: who sees it reports it, and tests ask. Inside sees threads that are in
// NCCL while another one aborts a communicator, as NCCL's guide forbids (ncclCommAbort).
#pragma once

#include <atomic>

#include "reprise/distributed/nccl/nccl_emulated.h"

namespace reprise::distributed::emulated {

/// For take_misuses.
void report_misuse(const std::string& words);

/// While one lives, its thread is in a function of the double.
class Inside {
 public:
  explicit Inside(bool is_abort);
  ~Inside();
  Inside(const Inside&) = delete;

 private:
  static inline std::atomic<int> threads{0}, aborts{0};
  bool is_abort_;
};

/// `function` as others call it.
template <auto function, bool is_abort = false>
inline constexpr auto entered = [](auto... arguments) {
  const Inside inside(is_abort);
  return function(arguments...);
};

}  // namespace reprise::distributed::emulated
