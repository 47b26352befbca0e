// TOML as toml++ may be given it: its text is from outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::apps {

/// A config has a few dozen keys; its longest value is a prompt.
inline constexpr uint64_t largest_toml = 1 << 17;

/// Error naming `path` and the line if `text` is not UTF-8, or has more keys and values than any config (a
/// table takes a hundred times its text).
void check_toml_text(std::string_view text, const std::string& path);

/// The same TOML in ASCII: what is not ASCII stands as letters and digits, which mean the same to a parser in
/// all places where it may stand. toml++ 3.3 has undefined behaviour on other characters where none may
/// stand.
std::string toml_in_ascii(std::string_view text);
/// What a key, a value or a message of the parser was before.
std::string toml_from_ascii(std::string_view text);

}  // namespace reprise::apps
