// UTF-8 by the table of well-formed sequences in the Unicode standard (table 3-7).
#include "reprise/io/utf8.h"

#include <cstdint>
#include <cstring>

#include "reprise/core/error.h"

namespace reprise::io {
namespace {

// The length of the well-formed sequence at the start of `p`, which has `left` > 0 bytes; 0 if there is none.
size_t sequence_length(const unsigned char* p, size_t left) {
  unsigned char lead = p[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (left < length) return 0;
  // The second byte's range is narrower after four lead bytes: no overlong forms, surrogates or values too
  // large.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t position = 0;
  while (position < text.size()) {
    uint64_t word = 0;  // eight ASCII bytes at a time
    if (position + sizeof(word) <= text.size()) {
      std::memcpy(&word, bytes + position, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        position += sizeof(word);
        continue;
      }
    }
    size_t length = sequence_length(bytes + position, text.size() - position);
    if (length == 0) return position;
    position += length;
  }
  return position;
}

void check_utf8(std::string_view text, std::string_view name) {
  size_t position = find_invalid_utf8(text);
  if (position == text.size()) return;
  fail("text: ", name, ": not UTF-8 at byte ", position, " (value ",
       int(static_cast<unsigned char>(text[position])), ")");
}

char32_t next_code_point(std::string_view text, size_t& position) {
  auto byte = [&](size_t i) { return char32_t(static_cast<unsigned char>(text[position + i])); };
  char32_t lead = byte(0), value = lead;
  size_t length = 1;
  if (lead >= 0xF0) {
    value = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (lead >= 0xE0) {
    value = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (lead >= 0x80) {
    value = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  position += length;
  return value;
}

void append_utf8(std::string& text, char32_t c) {
  auto tail = [&](int shift) { text += char(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    text += char(c);
  } else if (c < 0x800) {
    text += char(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    text += char(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    text += char(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

std::string describe_code_point(char32_t c) {
  std::string digits;
  for (char32_t rest = c; rest != 0 || digits.size() < 4; rest >>= 4) {
    digits.insert(digits.begin(), "0123456789ABCDEF"[rest & 15]);
  }
  std::string text = "U+" + digits;
  bool printable = c > 0x20 && c != 0x7F && !(c >= 0x80 && c < 0xA1);
  if (printable) {
    text += " '";
    append_utf8(text, c);
    text += "'";
  }
  return text;
}

}  // namespace reprise::io
