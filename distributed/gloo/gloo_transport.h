// Ranks that are processes, over TCP by Gloo: https://github.com/facebookincubator/gloo. Two sources alone include its headers,
// one of them for TLS.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "reprise/distributed/environment.h"
#include "reprise/distributed/tls_files.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// Whether this build has Gloo (Debian's libgloo-dev).
bool has_gloo();

struct JoinOptions {
  std::chrono::milliseconds timeout{};  ///< for all ranks to come
  /// A rank whose process is not heard for so long is `silent`, from the moment on when it has said who it is; 0: none is; nothing: as
  /// `GroupOptions::peer_timeout` says.
  std::optional<std::chrono::milliseconds> peer_timeout{};
  std::string token{};  ///< of the job; empty: none, and loopback alone
  std::string bind{};   ///< what rank 0 listens on; empty: the environment's address
  TlsFiles tls{};       ///< of the connections between ranks; empty: they are open
  std::function<void(const std::string& line)> tell{};  ///< by what warnings are told; empty: they are not
};

/// Joins the other ranks: rank 0 listens on the environment's address. Error if this build has no Gloo, or the address is not
/// of loopback and there is no token, or TLS is asked for and cannot be had (check_tls); TransportError if the ranks do not come within the timeout, or are not those that were
/// expected.
std::shared_ptr<Transport> connect_gloo(const Environment& environment, const JoinOptions& options);

}  // namespace reprise::distributed
