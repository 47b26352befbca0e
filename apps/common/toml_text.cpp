// A scan over strings, comments and the rest.
#include "reprise/apps/common/toml_text.h"

#include <algorithm>

#include "reprise/core/error.h"

namespace reprise::apps {
namespace {

constexpr int most_marks = 2000;  // of those that begin a key or a value
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

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

// toml++ ends a comment at Unicode's line breaks, too.
size_t end_of_comment(std::string_view text, size_t start) {
  size_t end = text.find('\n', start);
  for (std::string_view other : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"})
    end = std::min(end, text.find(other, start));
  return std::min(end, text.size());
}

}  // namespace

void check_toml_text(std::string_view text, const std::string& path) {
  int marks = 0;
  char before = '\n';  // the last character that is no space
  auto refuse = [&](size_t at, const char* fact) {
    fail(path, ":", 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'), ": ", fact);
  };
  for (size_t i = text.starts_with(byte_order_mark) ? 3 : 0; i < text.size();) {
    char c = text[i];
    if (c == '"' || c == '\'') {
      // In a key these are an empty string and the begin of another.
      if (before != '=' && text.substr(i, 3) == std::string(3, c))
        refuse(i, "three quotation marks that begin no value");
      // toml++ would go on as if it were no string.
      if (std::string_view("\n.,=[{").find(before) == std::string_view::npos)
        refuse(i, "a quotation mark that begins neither a key nor a value");
      i = end_of_string(text, i);
      before = c;
    } else if (c == '#') {
      i = end_of_comment(text, i);
    } else {
      if (static_cast<unsigned char>(c) < ' ' && std::string_view("\t\n\r").find(c) == std::string_view::npos)
        refuse(i, "a control character");
      if ((c & 0x80) != 0) refuse(i, "a character that is not ASCII, outside of quotation marks");
      if (std::string_view(".,=[{").find(c) != std::string_view::npos && ++marks > most_marks)
        refuse(i, "more keys and values than a config has");
      if (c != ' ' && c != '\t') before = c;
      ++i;
    }
  }
}

}  // namespace reprise::apps
