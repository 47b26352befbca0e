// Escaping of what a terminal would obey.
#include "reprise/apps/common/printable.h"

#include <fmt/core.h>

#include "reprise/apps/common/output.h"
#include "reprise/io/utf8.h"

namespace reprise::apps {
namespace {

bool is_control(char32_t c) { return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0); }

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    std::string_view valid = text.substr(0, io::find_invalid_utf8(text));
    for (size_t position = 0; position < valid.size();) {
      size_t start = position;
      char32_t c = io::next_code_point(valid, position);
      if (is_control(c))
        shown += c < 0x80 ? fmt::format("\\x{:02x}", uint32_t(c)) : fmt::format("\\u{:04x}", uint32_t(c));
      else
        shown += valid.substr(start, position - start);
    }
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  }
  return shown;
}

std::string for_output(std::string text) { return is_terminal() ? printable(text) : std::move(text); }

}  // namespace reprise::apps
