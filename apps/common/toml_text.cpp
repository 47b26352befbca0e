// A scan over strings, comments and the rest; and bytes as letters.
#include "reprise/apps/common/toml_text.h"

#include <algorithm>

#include "reprise/core/error.h"
#include "reprise/io/utf8.h"

namespace reprise::apps {
namespace {

constexpr int most_marks = 2000;  // of those that begin a key or a value
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF", hex_digits = "0123456789abcdef";
constexpr char escape = 'Z';  // no number of a config has it

// Where the string that begins at `start` ends.
size_t end_of_string(std::string_view text, size_t start) {
  char quote = text[start];
  const std::string three(3, quote);
  bool has_lines = text.substr(start, 3) == three;
  for (size_t i = start + (has_lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (has_lines && text.substr(i, 3) == three) {
      i += 3;  // and up to two quotes more, which are its last characters
      for (int more = 0; more < 2 && i < text.size() && text[i] == quote; ++more) ++i;
      return i;
    } else if (!has_lines && (text[i] == quote || text[i] == '\n')) {
      return i + 1;
    }
  }
  return text.size();
}

}  // namespace

void check_toml_text(std::string_view text, const std::string& path) {
  io::check_utf8(text, path);
  int marks = 0;
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i);
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else {
      check(std::string_view(".,=[{").find(c) == std::string_view::npos || ++marks <= most_marks, path, ":",
            1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(i), '\n'),
            ": more keys and values than a config has");
      ++i;
    }
  }
}

std::string toml_in_ascii(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string ascii;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) {
      ascii += {escape, hex_digits[byte >> 4], hex_digits[byte & 15]};
    } else {
      ascii.append(c == escape ? 2 : 1, c);
    }
  }
  return ascii;
}

std::string toml_from_ascii(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t high = i + 2 < text.size() ? hex_digits.find(text[i + 1]) : std::string_view::npos;
    size_t low = i + 2 < text.size() ? hex_digits.find(text[i + 2]) : std::string_view::npos;
    if (text[i] == escape && high != std::string_view::npos && low != std::string_view::npos) {
      out += char(high << 4 | low);
      i += 2;
    } else {
      out += text[i];
      if (text[i] == escape && i + 1 < text.size() && text[i + 1] == escape) ++i;
    }
  }
  return out;
}

}  // namespace reprise::apps
