// UTF-8 (RFC 3629): validity and code points.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::io {

/// The offset of the first byte that is not UTF-8 (overlong forms, surrogates and values past U+10FFFF are
/// not), or `text.size()` if all of it is.
size_t find_invalid_utf8(std::string_view text);

/// Error naming `name` and the offset unless `text` is UTF-8. `base` is the offset of `text` in what is
/// named.
void check_utf8(std::string_view text, std::string_view name, size_t base = 0);

/// The code point at `position`, which moves past it. `text` must be valid.
char32_t next_code_point(std::string_view text, size_t& position);

void append_utf8(std::string& text, char32_t code_point);

/// Any bytes, such as a path, as UTF-8 that JSON and TOML can hold: what is UTF-8 stays as it is, other bytes
/// become characters of the private use area, from which `bytes_from_utf8` brings them back.
std::string bytes_as_utf8(std::string_view bytes);
/// The bytes that `bytes_as_utf8` wrote. Error if `text` is not UTF-8.
std::string bytes_from_utf8(std::string_view text);

/// "U+0041" and, if it can be shown, the character: for messages.
std::string describe_code_point(char32_t code_point);

}  // namespace reprise::io
