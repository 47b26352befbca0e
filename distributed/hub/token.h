// Tokens: the secret of a job, by which its ranks prove to one another that they are of it.
#pragma once

#include <string>

namespace reprise::distributed {

/// Bytes of the shortest token: half the digits of 128 bits, or 16 random characters.
inline constexpr size_t shortest_token = 16;

/// The token of this process, empty if it was given none: what is in the pipe of which REPRISE_TOKEN_FD is the descriptor
/// (from --ranks), else in `file`, if one is named, else REPRISE_JOB_TOKEN. Spaces and line breaks around it do not count.
/// Both variables are gone from the process's environment afterwards, from /proc too; a later call finds what they held. Error
/// if the token is shorter than 16 bytes or longer than 4,096, or if `file` belongs to another user or may be read by others
/// (its mode is to be 0600).
std::string take_token(const std::string& file);

/// 128 random bits in hexadecimal digits.
std::string new_token();
/// Bytes from the system's generator.
std::string random_bytes(size_t count);

}  // namespace reprise::distributed
