// What the double of NCCL has seen, and tests ask for: what NCCL does not allow, and on which streams calls are. Inside sees threads that are in
// NCCL while another one aborts a communicator, as NCCL's guide forbids (ncclCommAbort).
#pragma once

#include <atomic>

#include "reprise/distributed/nccl/nccl_emulated.h"

namespace reprise::distributed::emulated {

/// For take_misuses.
void report_misuse(const std::string& words);

/// For nccl_calls_on: a call's memory is used on this stream.
void note_stream(void* stream);

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
