// A build without Gloo, or whose Gloo has no TLS.
#include "reprise/core/error.h"
#include "reprise/distributed/gloo/tls_device.h"

namespace reprise::distributed {

bool has_gloo_tls() { return false; }

std::shared_ptr<::gloo::transport::Device> make_tls_device(const std::string&, const TlsFiles&) {
  throw Bug("make_tls_device: this build's Gloo has no TLS");
}

void try_tls(const TlsFiles&) {}

}  // namespace reprise::distributed
