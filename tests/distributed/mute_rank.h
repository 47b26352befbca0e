// A rank that joins by hand, with heartbeats, and then says no more; its connection stays for as long as it lives.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "reprise/distributed/hub/frame_stream.h"
#include "reprise/distributed/hub/handshake.h"
#include "reprise/distributed/transport.h"

namespace reprise::testing {

struct MuteRank {
  distributed::FrameStream stream;
  std::string wrong = "no connection";   // empty: it has joined
  std::vector<std::string> called_with;  // the fields of the hub's call

  MuteRank(int port, int rank, int ranks, const std::string& address, const std::string& host = "")
      : stream(distributed::connect_to("127.0.0.1", port)) {
    using distributed::FrameKind;
    std::vector<std::string> ignored;
    if (!stream || !receive(FrameKind::greeting, ignored)) return;
    stream.send(frame_of(distributed::Hello{.rank = rank, .ranks = ranks, .pid = ::getpid(), .host = host}));
    if (!receive(FrameKind::call, called_with)) return;
    stream.send({FrameKind::places, std::vector<std::string>(size_t(ranks), address)});
    receive(FrameKind::welcome, ignored);
  }

 private:
  bool receive(distributed::FrameKind kind, std::vector<std::string>& fields) {
    const auto deadline = distributed::Clock::now() + std::chrono::seconds(10);  // heartbeats come for ever
    while (true) {
      while (auto frame = stream.next())
        if (frame->kind == kind) {
          fields = frame->fields;
          wrong = "";
          return true;
        }
      wrong = "nothing came";
      if (distributed::Clock::now() > deadline) return false;
      if (kind != distributed::FrameKind::greeting) stream.send_if_room({distributed::FrameKind::beat});
      if (!wait_readable(stream.socket(), std::chrono::milliseconds(250))) continue;
      wrong = "the hub has hung up";
      if (!stream.receive()) return false;
    }
  }
};

}  // namespace reprise::testing
