// The JSON reader and writer.
#include "reprise/io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "reprise/core/error.h"
#include "reprise/io/utf8.h"

namespace reprise::io {
namespace {

constexpr int deepest = 64;  // `skip` recurses once a level

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void JsonReader::fail_at(size_t offset, std::string_view fact) const {
  fail("json: ", name_, ": ", fact, " at byte ", offset);
}

void JsonReader::skip_space() {
  while (position_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
    ++position_;
  }
}

size_t JsonReader::offset() {
  skip_space();
  return base_ + position_;
}

JsonReader::Kind JsonReader::peek() {
  skip_space();
  if (position_ == text_.size()) fail_here("the text ends where a value should be");
  char c = text_[position_];
  if (c == '{') return Kind::object;
  if (c == '[') return Kind::array;
  if (c == '"') return Kind::string;
  if (c == 't' || c == 'f') return Kind::boolean;
  if (c == 'n') return Kind::null;
  if (c == '-' || is_digit(c)) return Kind::number;
  fail_here("no value");
}

void JsonReader::expect(char c) {
  skip_space();
  if (position_ == text_.size()) fail_here(std::string("the text ends where '") + c + "' should be");
  if (text_[position_] != c) fail_here(std::string("no '") + c + "'");
  ++position_;
}

void JsonReader::open(char c) {
  expect(c);
  if (++depth_ > deepest) fail_here("nested more than 64 deep");
}

bool JsonReader::another(char close, bool first) {
  skip_space();
  if (position_ < text_.size() && text_[position_] == close) {
    ++position_;
    --depth_;
    return false;
  }
  if (!first) expect(',');
  return true;
}

bool JsonReader::take(std::string_view word) {
  skip_space();
  if (text_.substr(position_, word.size()) != word) return false;
  position_ += word.size();
  return true;
}

bool JsonReader::boolean() {
  if (take("true")) return true;
  if (take("false")) return false;
  fail_here("no boolean");
}

void JsonReader::null() {
  if (!take("null")) fail_here("no null");
}

// Four hexadecimal digits.
char32_t JsonReader::escaped_unit() {
  uint32_t unit = 0;
  std::string_view digits = text_.substr(position_, 4);
  auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  if (error != std::errc() || stop != digits.data() + 4) fail_here("bad \\u escape");
  position_ += 4;
  return unit;
}

void JsonReader::append_escape(std::string& out) {
  if (position_ == text_.size()) fail_here("the text ends inside a string");
  char c = text_[position_++];
  constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
  if (size_t i = from.find(c); i != std::string_view::npos) {
    out += to[i];
    return;
  }
  if (c != 'u') fail_here("bad escape");
  char32_t unit = escaped_unit();
  if (unit >= 0xD800 && unit < 0xDC00) {  // the first half of a surrogate pair
    if (text_.substr(position_, 2) != "\\u") fail_here("lone surrogate");
    position_ += 2;
    char32_t second = escaped_unit();
    if (second < 0xDC00 || second > 0xDFFF) fail_here("lone surrogate");
    unit = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
  } else if (unit >= 0xDC00 && unit <= 0xDFFF) {
    fail_here("lone surrogate");
  }
  append_utf8(out, unit);
}

// Bytes from here to the end of the string that was begun: what it says is never longer than how it is
// written.
size_t JsonReader::string_bytes() const {
  size_t stop = position_;
  while (stop < text_.size() && text_[stop] != '"') stop += text_[stop] == '\\' ? 2 : 1;
  return std::min(stop, text_.size()) - position_;
}

std::string JsonReader::string() {
  skip_space();
  if (position_ == text_.size() || text_[position_] != '"') fail_here("no string");
  size_t start = ++position_;
  std::string out;
  out.reserve(string_bytes());  // at once: growing would take thrice as much
  for (;;) {
    size_t stop = position_;
    while (stop < text_.size() && text_[stop] != '"' && text_[stop] != '\\' && (text_[stop] & 0xE0) != 0)
      ++stop;
    out.append(text_.substr(position_, stop - position_));
    position_ = stop;
    if (position_ == text_.size()) fail_here("the text ends inside a string");
    char c = text_[position_];
    if (c != '"' && c != '\\') fail_here("control character in a string");
    ++position_;
    if (c == '"') break;
    append_escape(out);
  }
  // Escapes are valid by construction, so what is wrong stands in the text itself.
  size_t bad = find_invalid_utf8(text_.substr(start, position_ - 1 - start));
  if (bad != position_ - 1 - start) {
    position_ = start + bad;
    fail_here("not UTF-8");
  }
  return out;
}

std::string_view JsonReader::number_text() {
  skip_space();
  size_t i = position_;
  auto digits = [&] {
    size_t start = i;
    while (i < text_.size() && is_digit(text_[i])) ++i;
    return i - start;
  };
  auto at = [&](std::string_view set) {
    return i < text_.size() && set.find(text_[i]) != std::string_view::npos;
  };
  if (at("-")) ++i;
  size_t first = i;
  if (size_t count = digits(); count == 0 || (count > 1 && text_[first] == '0')) fail_here("no number");
  if (at(".") && (++i, digits() == 0)) fail_here("no number");
  if (at("eE")) {
    ++i;
    if (at("+-")) ++i;
    if (digits() == 0) fail_here("no number");
  }
  return text_.substr(position_, i - position_);
}

int64_t JsonReader::integer() {
  std::string_view digits = number_text();
  int64_t value = 0;
  auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) fail_here("integer out of range");
  if (stop != digits.data() + digits.size()) fail_here("not an integer");
  position_ += digits.size();
  return value;
}

double JsonReader::number() {
  std::string_view digits = number_text();
  double value = 0;
  auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc()) fail_here("number out of range");
  position_ += digits.size();
  return value;
}

void JsonReader::skip() {
  switch (peek()) {
    case Kind::object:
      return object([&](const std::string&) { skip(); });
    case Kind::array:
      return array([&] { skip(); });
    case Kind::string:
      return void(string());
    case Kind::number:
      position_ += number_text().size();
      return;
    case Kind::boolean:
      return void(boolean());
    case Kind::null:
      return null();
  }
}

void JsonReader::end() {
  skip_space();
  if (position_ != text_.size()) fail_here("something follows the document");
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    constexpr std::string_view special = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    if (size_t i = special.find(c); i != std::string_view::npos) {
      out += '\\';
      out += letters[i];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += "01"[c >> 4];
      out += "0123456789abcdef"[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

}  // namespace reprise::io
