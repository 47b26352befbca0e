// Text from outside, as it may be shown: names and file contents can hold control characters, escape
// sequences that a terminal obeys, and any length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise {

/// `text` for a terminal: line breaks and tabs stay; other control characters, what turns the direction of
/// writing and bytes that are not UTF-8 become \x1b, \u{202e} and the like.
std::string printable(std::string_view text);

/// `text` between quotation marks, for a message: in one line, quotation marks and backslashes escaped, and
/// cut after about `longest` bytes, with the length of the whole.
std::string quote(std::string_view text, size_t longest = 120);

}  // namespace reprise
