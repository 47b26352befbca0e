// The well-formed byte sequences of UTF-8.
#pragma once

#include <cstddef>

namespace reprise {

/// The length of the well-formed sequence (Unicode standard, table 3-7) at the start of `bytes`, of which
/// there are `left` > 0; 0 if there is none.
constexpr size_t utf8_sequence_length(const unsigned char* bytes, size_t left) {
  unsigned char lead = bytes[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (left < length) return 0;
  // The second byte's range is narrower after four lead bytes: no overlong forms, surrogates or values too
  // large.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (bytes[1] < low || bytes[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((bytes[i] & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace reprise
