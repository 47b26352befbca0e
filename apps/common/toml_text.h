// What is checked in TOML before a parser sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::apps {

/// A config has a few dozen keys; its longest value is a prompt.
inline constexpr uint64_t largest_toml = 1 << 17;

/// Error naming `path` and the line if, outside of strings and comments, `text` holds a control character,
/// one that is not ASCII (which TOML has no use for there, and which toml++ 3.3 reaches undefined behaviour
/// by), a quotation mark where no string can begin, or more keys and values than any config (a table takes a
/// hundred times its text).
void check_toml_text(std::string_view text, const std::string& path);

}  // namespace reprise::apps
