// Checking, taking apart and putting together UTF-8.
#include "reprise/io/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/core/utf8_sequence.h"

namespace reprise::io {
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
    size_t length = utf8_sequence_length(bytes + position, text.size() - position);
    if (length == 0) return position;
    position += length;
  }
  return position;
}

void check_utf8(std::string_view text, std::string_view name, size_t base) {
  size_t position = find_invalid_utf8(text);
  if (position == text.size()) return;
  fail("text: ", name, ": not UTF-8 at byte ", base + position, " (value ",
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
  bool is_shown = c > 0x20 && c != 0x7F && !(c >= 0x80 && c < 0xA1);
  if (is_shown) {
    std::string character;
    append_utf8(character, c);
    text += " '" + printable(character) + "'";
  }
  return text;
}

namespace {

// A byte that is not UTF-8 as a character of the private use area: U+EF80 to U+EFFF stand for 0x80 to 0xFF.
constexpr char32_t stand_in = 0xEF00;
bool stands_for_byte(char32_t c) { return c >= stand_in + 0x80 && c <= stand_in + 0xFF; }

}  // namespace

std::string bytes_as_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
    size_t length = utf8_sequence_length(at, bytes.size()), position = 0;
    if (length > 0 && !stands_for_byte(next_code_point(bytes, position))) {
      text.append(bytes.substr(0, length));
    } else {
      length = std::max<size_t>(length, 1);
      for (size_t i = 0; i < length; ++i) append_utf8(text, stand_in + at[i]);
    }
    bytes.remove_prefix(length);
  }
  return text;
}

std::string bytes_from_utf8(std::string_view text) {
  check_utf8(text, "text");
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    size_t start = position;
    char32_t c = next_code_point(text, position);
    if (stands_for_byte(c))
      bytes += char(c - stand_in);
    else
      bytes.append(text.substr(start, position - start));
  }
  return bytes;
}

}  // namespace reprise::io
