// Printable Latin-1 characters stand for themselves; the other 68 bytes take U+0100 and up, in order.
#include "reprise/io/text/byte_alphabet.h"

#include <array>

#include "reprise/core/error.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

constexpr int alphabet_end = 256 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<int, 256> of_byte{};
  std::array<int, alphabet_end> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    int character = stands_for_itself(byte) ? byte : next++;
    alphabet.of_byte[size_t(byte)] = character;
    alphabet.byte_of[size_t(character)] = byte;
  }
  return alphabet;
}

constexpr Alphabet alphabet = make_alphabet();

}  // namespace

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string text;
  for (char c : bytes) append_utf8(text, char32_t(alphabet.of_byte[static_cast<unsigned char>(c)]));
  return text;
}

std::string alphabet_to_bytes(std::string_view text) {
  check_utf8(text, "token");
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    char32_t c = next_code_point(text, position);
    check(c < alphabet_end && alphabet.byte_of[c] >= 0, "token: ", describe_code_point(c),
          " stands for no byte");
    bytes += char(alphabet.byte_of[c]);
  }
  return bytes;
}

}  // namespace reprise::io
