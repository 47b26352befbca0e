// Files of TLS, checked before Gloo reads them.
#include "reprise/distributed/tls_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/gloo/tls_device.h"
#include "reprise/distributed/hub/socket.h"

namespace reprise::distributed {
namespace {

using Option = std::pair<const char*, const std::string&>;

std::array<Option, 3> options_of(const TlsFiles& files) {
  return {Option{"--tls-cert", files.cert}, {"--tls-key", files.key}, {"--tls-ca", files.ca}};
}

// "--tls-cert, --tls-ca": those that are given, or those that are not.
std::string listed(const TlsFiles& files, bool given) {
  std::string names;
  for (const auto& [name, path] : options_of(files))
    if (path.empty() != given) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

void check_file(const char* option, const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  check(bool(file), "join: ", option, ' ', quote(path), ": ", std::strerror(errno));
  struct stat status {};
  check(::fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode), "join: ", option, ' ', quote(path),
        " is no regular file");
}

}  // namespace

void check_tls(const TlsFiles& files) {
  if (!files.is_asked()) return;
  const std::string missing = listed(files, false);
  check(missing.empty(), "join: ", listed(files, true), " without ", missing,
        ": TLS between ranks needs --tls-cert, --tls-key and --tls-ca");
  check(has_gloo_tls(),
        "join: --tls-cert, --tls-key, --tls-ca: this build's Gloo has no TLS, as Debian's libgloo-dev has "
        "none; leave them "
        "out and use a private network or WireGuard between the machines, or build Gloo with "
        "USE_TCP_OPENSSL_LINK "
        "(docs/distributed.md) and configure again");
  for (const auto& [name, path] : options_of(files)) check_file(name, path);
  try_tls(files);
}

void check_no_tls(const TlsFiles& files, const std::string& reason) {
  check(!files.is_asked(), "join: ", listed(files, true), ": ", reason);
}

}  // namespace reprise::distributed
