// The names of machines, as their ranks say them.
#pragma once

#include <string>

namespace reprise::distributed {

/// The longest name that a rank may say of its machine, in bytes; Linux allows 64.
inline constexpr size_t longest_host = 255;

/// This machine's; empty where it says none.
std::string host_name();

/// The name that another machine has, for a message: what is no letter, digit, '-', '.' or '_' becomes '?', and of more than 64
/// bytes the first stand, and "...".
std::string shown_host(const std::string& name);

}  // namespace reprise::distributed
