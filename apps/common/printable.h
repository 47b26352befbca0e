// Text of files and models, as a terminal may be given it.
#pragma once

#include <string>
#include <string_view>

namespace reprise::apps {

/// The text with its control characters (but line break and tab) and what is not UTF-8 as "\x1b", "\u009b":
/// a terminal would obey them.
std::string printable(std::string_view text);

/// `printable` if standard output is a terminal; to a file or pipe, text goes as it is.
std::string for_output(std::string text);

}  // namespace reprise::apps
