// UTF-8 (RFC 3629): validity and code points.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::io {

/// The offset of the first byte that is not UTF-8 (overlong forms, surrogates and values past U+10FFFF are
/// not), or `text.size()` if all of it is.
size_t find_invalid_utf8(std::string_view text);

/// Error naming `name` and the offset unless `text` is UTF-8.
void check_utf8(std::string_view text, std::string_view name);

/// The code point at `position`, which moves past it. `text` must be valid.
char32_t next_code_point(std::string_view text, size_t& position);

void append_utf8(std::string& text, char32_t code_point);

/// "U+0041" and, if it can be shown, the character: for messages.
std::string describe_code_point(char32_t code_point);

}  // namespace reprise::io
