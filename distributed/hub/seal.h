// Seal: the MACs of the frames of one direction of a connection.
#pragma once

#include <cstdint>
#include <string>

#include "reprise/distributed/hub/mac.h"

namespace reprise::distributed {

/// The MAC of a frame is that of its number and its bytes: a frame that is left out, repeated, or of another direction or
/// connection has another one.
class Seal {
 public:
  Seal() = default;  ///< none: MACs are empty
  explicit Seal(std::string key) : key_(std::move(key)) {}
  size_t size() const { return key_.empty() ? 0 : mac_size; }
  /// Of the next frame.
  std::string mac_of(std::string_view frame) const {
    if (key_.empty()) return "";
    return hmac_sha256(key_, std::to_string(number_) + ':' + std::string(frame));
  }
  void advance() { ++number_; }

 private:
  std::string key_;
  uint64_t number_ = 0;
};

}  // namespace reprise::distributed
