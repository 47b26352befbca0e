// Gloo's connections by TLS.
#pragma once

#include <memory>
#include <string>

#include "reprise/distributed/tls_files.h"

namespace gloo::transport {
class Device;
}

namespace reprise::distributed {

/// A device of Gloo whose pairs listen on `address` and speak TLS. Error if this build's Gloo has none.
std::shared_ptr<::gloo::transport::Device> make_tls_device(const std::string& address, const TlsFiles& files);

/// Error that names the option whose file OpenSSL does not take: no PEM, or a key of another certificate.
void try_tls(const TlsFiles& files);

}  // namespace reprise::distributed
