// Hashes of 64 bits, to tell values apart; not for secrets.
#pragma once

#include <cstdint>

namespace reprise {

/// The finaliser of MurmurHash3 (Appleby 2011).
constexpr uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDull;
  h ^= h >> 33;
  h *= 0xC4CEB9FE1A85EC53ull;
  return h ^ (h >> 33);
}

/// The hash of a sequence, with `value` behind it: the order counts.
constexpr uint64_t mix(uint64_t h, uint64_t value) { return mix(h * 0x9E3779B97F4A7C15ull + mix(value + 1)); }

}  // namespace reprise
