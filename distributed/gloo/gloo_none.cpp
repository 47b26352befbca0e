// A build without Gloo.
#include "reprise/distributed/gloo/gloo_transport.h"

namespace reprise::distributed {

bool has_gloo() { return false; }

std::shared_ptr<Transport> connect_gloo(const Environment& environment, const JoinOptions&) {
  fail("join: ", environment.ranks, " ranks (", environment.launcher,
       ") need Gloo, which this build does not have; sudo apt-get install libgloo-dev, and configure again");
}

}  // namespace reprise::distributed
