#include "reprise/distributed/hub/frame_stream.h"

namespace reprise::distributed {

void FrameStream::seal(const std::string& key_out, const std::string& key_in) {
  out_ = Seal(key_out);
  reader_.seal(Seal(key_in));
}

std::string FrameStream::sealed(const Frame& frame) const {
  const std::string bytes = encode(frame);
  return bytes + out_.mac_of(bytes);
}

bool FrameStream::send(const Frame& frame) {
  const bool is_sent = send_all(socket_, sealed(frame));
  out_.advance();
  return is_sent;
}

bool FrameStream::send_if_room(const Frame& frame) {
  const bool is_sent = distributed::send_if_room(socket_, sealed(frame));
  if (is_sent) out_.advance();
  return is_sent;
}

bool FrameStream::receive() {
  const std::string bytes = receive_some(socket_);
  reader_.feed(bytes);
  return !bytes.empty();
}

}  // namespace reprise::distributed
