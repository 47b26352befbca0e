// Ranks that are processes, over TCP by Gloo: https://github.com/facebookincubator/gloo. One source includes its headers.
#pragma once

#include <memory>

#include "reprise/distributed/environment.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// Whether this build has Gloo (Debian's libgloo-dev).
bool has_gloo();

/// Joins the other ranks: rank 0 listens on the environment's address, which must be one of loopback. Error if this build has
/// no Gloo; TransportError if the ranks do not come within the timeout, or are not those that were expected. A rank whose
/// process is not heard for `peer_timeout` is `silent`, from the moment on when all have come; 0: none is.
std::shared_ptr<Transport> connect_gloo(const Environment& environment, std::chrono::milliseconds timeout,
                                        std::chrono::milliseconds peer_timeout = default_peer_timeout);

}  // namespace reprise::distributed
