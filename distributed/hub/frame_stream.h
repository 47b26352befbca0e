// FrameStream: frames over a socket, sealed once both ends have proved who they are.
#pragma once

#include "reprise/distributed/hub/frame.h"
#include "reprise/distributed/hub/socket.h"

namespace reprise::distributed {

class FrameStream {
 public:
  FrameStream() = default;  ///< none
  explicit FrameStream(Socket socket) : socket_(std::move(socket)) {}
  explicit operator bool() const { return bool(socket_); }
  const Socket& socket() const { return socket_; }

  /// From here on each frame has a MAC behind it: of the frame and its number, by the key of its direction. Empty keys: none.
  void seal(const std::string& key_out, const std::string& key_in);

  /// False if the peer has gone, or has taken nothing for a second.
  bool send(const Frame& frame);
  /// Where the peer takes nothing now, nothing is sent, and it is false.
  bool send_if_room(const Frame& frame);

  /// Takes what has arrived; waits if nothing has. False if the peer has gone.
  bool receive();
  /// The next frame of what was taken, if it is whole. Error if what stands there is no frame, or none of the peer's next.
  std::optional<Frame> next() { return reader_.next(); }

 private:
  std::string sealed(const Frame& frame) const;

  Socket socket_;
  FrameReader reader_;
  Seal out_;
};

}  // namespace reprise::distributed
