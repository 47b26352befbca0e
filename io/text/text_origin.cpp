// Finding the part that a byte is of.
#include "reprise/io/text/text_origin.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/utf8.h"

namespace reprise::io {

std::string TextOrigin::describe(size_t position) const {
  size_t at = offset + position;
  auto is_after = [](size_t byte, const TextPart& part) { return byte < part.begin; };
  auto next = std::upper_bound(parts.begin(), parts.end(), at, is_after);
  if (next == parts.begin()) return detail::join("at byte ", at);
  const TextPart& part = *std::prev(next);
  return detail::join("at byte ", at - part.begin, " of ", part.name);
}

void check_utf8(std::string_view text, const TextOrigin& origin, std::string_view op) {
  size_t position = find_invalid_utf8(text);
  if (position == text.size()) return;
  fail(op, ": not UTF-8 ", origin.describe(position), " (value ",
       int(static_cast<unsigned char>(text[position])), ")");
}

}  // namespace reprise::io
