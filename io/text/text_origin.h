// Where a text comes from, so that what is wrong with it can be said in terms of files.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace reprise::io {

/// A file, or another source, that a text was put together from.
struct TextPart {
  std::string name;  ///< its path, or what messages call it
  size_t begin = 0;  ///< of its first byte, in the whole text
};

/// Where a text at hand is from: the files of a whole, and its place in that. For messages.
struct TextOrigin {
  std::span<const TextPart> parts{};  ///< in order; none if the source has no name
  size_t offset = 0;                  ///< of the text at hand in the whole

  /// "at byte 17 of t.txt", for the byte `position` of the text at hand.
  std::string describe(size_t position) const;
};

/// Error naming `op`, the source and the byte unless `text` is UTF-8.
void check_utf8(std::string_view text, const TextOrigin& origin, std::string_view op);

}  // namespace reprise::io
