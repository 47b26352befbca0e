// The 256 printable characters that GPT-2's files write bytes with.
#pragma once

#include <string>
#include <string_view>

namespace reprise::io {

/// Bytes as printable text: a space becomes U+0120.
std::string bytes_to_alphabet(std::string_view bytes);

/// The bytes that `text` writes. Error if a character is not of the alphabet.
std::string alphabet_to_bytes(std::string_view text);

}  // namespace reprise::io
