// Where a pair of Gloo listens, in few bytes: a frame of the hub has the addresses of all ranks.
#pragma once

#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace reprise::distributed {

/// The most ranks of a job: a welcome of so many fits into a frame.
inline constexpr int most_ranks = 1024;

/// Of a `sockaddr_storage` and the pair's number behind it, as Gloo writes an address: family, port, IPv4 address and number; the rest is 0. An
/// address of another kind stays as it is.
inline std::string packed_address(const std::vector<char>& bytes) {
  constexpr size_t head = offsetof(sockaddr_in, sin_zero), storage = sizeof(sockaddr_storage);
  const bool is_short = bytes.size() > storage && std::all_of(bytes.begin() + head, bytes.begin() + storage,
                                                              [](char c) { return c == 0; });
  if (!is_short) return {bytes.begin(), bytes.end()};
  std::string text(bytes.begin(), bytes.begin() + head);
  return text.append(bytes.begin() + storage, bytes.end());
}

/// What `packed_address` was made of.
inline std::vector<char> unpacked_address(const std::string& text) {
  constexpr size_t head = offsetof(sockaddr_in, sin_zero), storage = sizeof(sockaddr_storage);
  if (text.size() > storage || text.size() < head) return {text.begin(), text.end()};
  std::vector<char> bytes(storage);
  std::copy_n(text.begin(), head, bytes.begin());
  bytes.insert(bytes.end(), text.begin() + head, text.end());
  return bytes;
}

}  // namespace reprise::distributed
