// The files by which the connections between ranks are encrypted, where Gloo was built with TLS.
#pragma once

#include <string>

namespace reprise::distributed {

/// Paths of PEM files; all are given, or none is. With them the connections between ranks are TLS 1.3: each rank shows its
/// certificate, and takes no other's that `ca` has not signed.
struct TlsFiles {
  std::string cert{};  ///< this rank's certificate, and those between it and `ca`
  std::string key{};   ///< the private key of `cert`
  std::string ca{};    ///< the certificates of who signs for this job's ranks
  bool is_asked() const {
    return !cert.empty() || !key.empty() || !ca.empty();
  }  ///< whether one of them is given
};

/// Whether this build has a Gloo with TLS. Debian's libgloo-dev has none.
bool has_gloo_tls();

/// Error that names the option and the path, unless all three are given, this build's Gloo has TLS, and it takes them.
void check_tls(const TlsFiles& files);

/// Error if TLS is asked for where `reason`, such as "ranks that are threads have no connections".
void check_no_tls(const TlsFiles& files, const std::string& reason);

}  // namespace reprise::distributed
