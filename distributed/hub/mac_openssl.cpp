// MACs by OpenSSL's libcrypto.
#include "reprise/distributed/hub/mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "reprise/core/error.h"

namespace reprise::distributed {

bool has_mac() { return true; }

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string mac(mac_size, '\0');
  unsigned size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), int(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), reinterpret_cast<unsigned char*>(mac.data()), &size);
  check(made && size == mac_size, "hub: libcrypto makes no HMAC-SHA-256");
  return mac;
}

bool is_same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace reprise::distributed
