// Escaping what a terminal would obey.
#include "reprise/core/quote.h"

#include "reprise/core/utf8_sequence.h"

namespace reprise {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

void append_byte(std::string& out, unsigned char byte) {
  out += "\\x";
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

// Characters of two and three bytes that are not shown but do something: C1 controls, marks of direction, and
// the two line separators.
bool is_obeyed(unsigned value) {
  return (value >= 0x80 && value < 0xA0) || value == 0x61C || (value >= 0x200B && value <= 0x200F) ||
         (value >= 0x2028 && value <= 0x202E) || (value >= 0x2060 && value <= 0x206F) || value == 0xFEFF;
}

void append_value(std::string& out, unsigned value) {
  out += "\\u{";
  for (int shift = value < 0x1000 ? 8 : 12; shift >= 0; shift -= 4) {
    if (shift != 8 || value >= 0x100) out += digits[value >> shift & 15];
  }
  out += '}';
}

// Appends the character at the start of `rest`, which moves past it.
void append_shown(std::string& out, std::string_view& rest) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(rest.data());
  size_t length = utf8_sequence_length(bytes, rest.size());
  unsigned value = length == 2   ? (bytes[0] & 0x1Fu) << 6 | (bytes[1] & 0x3Fu)
                   : length == 3 ? (bytes[0] & 0x0Fu) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu)
                                 : 0;
  if (length == 0 || (length == 1 && (bytes[0] < 0x20 || bytes[0] == 0x7F))) {
    length = 1;
    append_byte(out, bytes[0]);
  } else if (is_obeyed(value)) {
    append_value(out, value);
  } else {
    out.append(rest.substr(0, length));
  }
  rest.remove_prefix(length);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text[0] == '\n' || text[0] == '\t') {
      out += text[0];
      text.remove_prefix(1);
    } else {
      append_shown(out, text);
    }
  }
  return out;
}

std::string quote(std::string_view text, size_t longest) {
  std::string out = "\"";
  std::string_view rest = text;
  while (!rest.empty() && out.size() <= longest) {
    constexpr std::string_view special = "\"\\\n\r\t", letters = "\"\\nrt";
    if (size_t i = special.find(rest[0]); i != std::string_view::npos) {
      out += '\\';
      out += letters[i];
      rest.remove_prefix(1);
    } else {
      append_shown(out, rest);
    }
  }
  if (rest.empty()) return out + "\"";
  return out + "\"... (" + std::to_string(text.size()) + " bytes)";
}

}  // namespace reprise
