// Call: what one rank calls, as it is compared between ranks before anything moves.
#pragma once

#include <string>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

struct Call {
  std::string operation;         ///< "all_reduce"
  std::string words;             ///< what else must agree: "sum", "from 2"
  std::string label;             ///< of the tensor, the same on all ranks
  std::optional<DType> dtype{};  ///< none: a call without a tensor
  Shape shape{};
  bool on_cuda = false;  ///< where the tensor is
  std::string group{};   ///< "world"
  uint64_t key = 0;      ///< of the group: tells groups of one name apart
  int64_t sequence =
      0;  ///< of the calls of the group; of a send or recv, among those of its pair and direction
  std::string answer{};  ///< the operation of the other rank, where that is another one: "recv" for a send
};

/// `words` are what else must agree: "sum", "from 2". `x` may be undefined: a barrier.
Call make_call(std::string operation, const std::string& words, const Tensor& x, const std::string& label);

/// `all_reduce sum f32 (6553600,) "bucket 3"`: all that must agree, but for the group and the number.
std::string description_of(const Call& call);

/// The call as others see it: its group and number, a hash of its description, and as much of that as there is room for.
Note note_of(const Call& call);
/// What the other rank's note must be.
Note expected_note(const Call& call);
/// Whether two notes are of calls that belong together.
bool agree(const Note& one, const Note& other);

/// What a note says, for messages about a call of `group`: where it is of another group, with that and its number.
std::string description_in(const Note& note, const Call& call);

/// The call that a note is of: "all_reduce #7 of group world".
std::string place_in(const Note& note);

/// "rank 2", "ranks 1 3".
std::string ranks_in_words(const std::vector<int>& ranks);

}  // namespace reprise::distributed
