// Frame: a message between a rank and the hub: a kind and some texts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/distributed/errors.h"
#include "reprise/distributed/hub/seal.h"

namespace reprise::distributed {

enum class FrameKind : char {
  greeting = 'G',  ///< hub: protocol, job, its nonce (hub/handshake.h)
  hello = 'H',     ///< rank: who it is, its nonce and proof
  accepted = 'A',  ///< hub: its proof
  call = 'C',      ///< hub: all have come; who rank 0 is
  places = 'P',    ///< rank: an address for each rank, at which this one now listens
  welcome =
      'W',  ///< hub: an address of each rank for this one; their nonces, or proofs to send and proofs to expect
  refusal = 'R',  ///< hub: why the ranks cannot join; before it has accepted a rank: nothing
  failure = 'F',  ///< rank to hub, hub to all: kind, rank, message, milliseconds since it was heard
  goodbye = 'B',  ///< rank: it makes no more calls; its last one
  left = 'L',     ///< hub: which rank said goodbye, and its last call
  beat = 'T',     ///< rank, once accepted: that it is there; hub to ranks: microseconds since 1970
};

struct Frame {
  FrameKind kind = FrameKind::greeting;
  std::vector<std::string> fields{};
};

/// The most bytes of a frame. A longer one is an Error where it is sent and where it arrives.
inline constexpr size_t longest_frame = 64 * 1024;

std::string encode(const Frame& frame);

/// Bytes as they arrive, and the frames among them.
class FrameReader {
 public:
  void feed(const std::string& bytes) { bytes_ += bytes; }
  /// Those that follow have a MAC behind them.
  void seal(Seal seal) { seal_ = std::move(seal); }
  /// The next one, if it is whole. Error if what stands there is no frame, or its MAC is another one.
  std::optional<Frame> next();

 private:
  std::string bytes_;
  Seal seal_;
};

Frame frame_of(const Failure& failure);
Failure failure_in(const Frame& frame);  ///< Error if it has none
/// Field i as a number. Error if it is not there, or none from `least` to `most`.
int64_t number_in_frame(const Frame& frame, size_t i, int64_t least, int64_t most);

}  // namespace reprise::distributed
