// The names of states that ranks share, in Optimizer::own_state_dict and in the files of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::optim {

/// Elements of a state in a row.
struct StateRange {
  std::string state;  ///< such as "wte.weight:first_moment"
  int64_t begin = 0;  ///< the first, in row-major order
};

/// "wte.weight:first_moment:65536".
std::string range_name(const StateRange& range);
/// Nothing if it is the name of anything else.
std::optional<StateRange> range_in(std::string_view name);

/// "wte.weight:first_moment:shape", of the sizes of the whole state, i64.
std::string shape_name(const std::string& state);
/// The state of such a name; nothing if it is the name of anything else.
std::optional<std::string> shaped_state_in(std::string_view name);

}  // namespace reprise::optim
