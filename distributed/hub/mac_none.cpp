// A build without libcrypto: its ranks have no token, and join on loopback alone.
#include "reprise/core/error.h"
#include "reprise/distributed/hub/mac.h"

namespace reprise::distributed {

bool has_mac() { return false; }

std::string hmac_sha256(std::string_view, std::string_view) {
  fail(
      "join: a job's token is proved by libcrypto, which this build does not have; sudo apt-get install "
      "libssl-dev, and configure again");
}

bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); ++i) differs = static_cast<unsigned char>(differs | (a[i] ^ b[i]));
  return differs == 0;
}

}  // namespace reprise::distributed
