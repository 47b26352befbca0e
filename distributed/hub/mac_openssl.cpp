// MACs by OpenSSL's libcrypto.
#include "reprise/distributed/hub/mac.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <atomic>
#include <new>

#include "reprise/core/error.h"

namespace reprise::distributed {

namespace {

// Once libcrypto has made a MAC, memory is all that it can lack. That is this process's own fault, which no other one's frame
// may be blamed for.
std::atomic<bool> has_made_one{false};

bool lacks_memory() {
  bool lacks = has_made_one;
  while (const unsigned long error = ERR_get_error()) lacks |= ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
  return lacks;
}

}  // namespace

bool has_mac() { return true; }

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string mac(mac_size, '\0');
  unsigned size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), int(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), reinterpret_cast<unsigned char*>(mac.data()), &size);
  if (!made && lacks_memory()) throw std::bad_alloc();
  check(made && size == mac_size, "hub: libcrypto makes no HMAC-SHA-256");
  has_made_one = true;
  return mac;
}

bool is_same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace reprise::distributed
