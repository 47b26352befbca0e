// Unicode's normal form C (Standard Annex 15), by utf8proc.
#pragma once

#include <string>
#include <string_view>

namespace reprise::io {

bool has_nfc();  ///< whether this build has utf8proc
/// UTF-8 text whose letters and accents are one character where there is such a one. Error on more than 1,000 combining
/// marks in a row, and without utf8proc.
std::string to_nfc(std::string_view text);

}  // namespace reprise::io
