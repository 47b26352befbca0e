// MACs: what only who has the key can write. HMAC-SHA-256 (RFC 2104, FIPS 180-4), by OpenSSL's libcrypto.
#pragma once

#include <string>
#include <string_view>

namespace reprise::distributed {

inline constexpr size_t mac_size = 32;  // bytes

/// Whether this build has libcrypto (Debian's libssl-dev).
bool has_mac();
/// The MAC of `text`, of mac_size bytes. Error if this build has no libcrypto.
std::string hmac_sha256(std::string_view key, std::string_view text);
/// Whether two texts are the same, in a time that does not tell how much of them is.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace reprise::distributed
