// Call: what one rank calls, as it is compared between ranks before anything moves.
#pragma once

#include <string>

#include "reprise/core/tensor.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

struct Call {
  std::string operation;    ///< "all_reduce"
  std::string label;        ///< of the tensor, the same on all ranks
  std::string description;  ///< `all_reduce sum f32 (6553600) "bucket 3"`: all that must agree
  int64_t sequence = 0;
};

/// `words` are what else must agree: "sum", "from 2". `x` may be undefined: a barrier.
Call make_call(std::string operation, const std::string& words, const Tensor& x, const std::string& label);

/// The call as others see it: its sequence, a hash of its description, and as much of that as there is room for.
Note note_of(const Call& call);

/// What a note says, for messages.
std::string description_in(const Note& note);

}  // namespace reprise::distributed
