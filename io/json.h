// JSON (RFC 8259) as a stream: a strict reader that builds no tree, so that a damaged or hostile file costs
// no more memory than its own bytes and every Error gives the file and the offset; and the two things a
// writer needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::io {

/// Reads one JSON document from the front. Each call takes the next value and is an Error if it is of another
/// kind.
///
///     JsonReader json(text, path);
///     json.object([&](std::string key) { sizes[key] = json.integer(); });
///     json.end();
class JsonReader {
 public:
  enum class Kind { object, array, string, number, boolean, null };

  /// `name` stands in messages; `base` is the offset of `text` in the file. `text` must outlive the reader.
  JsonReader(std::string_view text, std::string name, size_t base = 0)
      : text_(text), name_(std::move(name)), base_(base) {}

  Kind peek();
  /// Calls `member(key)` for each member; it must read the value. Duplicate keys are the caller's to refuse.
  template <class Member>
  void object(Member&& member) {
    open('{');
    for (bool first = true; another('}', first); first = false) {
      std::string key = string();
      expect(':');
      member(std::move(key));
    }
  }
  /// Calls `element()` for each element; it must read it.
  template <class Element>
  void array(Element&& element) {
    open('[');
    for (bool first = true; another(']', first); first = false) element();
  }
  std::string string();  ///< valid UTF-8
  int64_t integer();     ///< Error if written with a fraction or an exponent, or out of range
  double number();
  bool boolean();
  void null();
  void skip();  ///< any value
  void end();   ///< Error if anything but space follows

  /// Offset in the file of the next value: for the caller's own messages.
  size_t offset();
  [[noreturn]] void fail_at(size_t offset, std::string_view fact) const;

 private:
  [[noreturn]] void fail_here(std::string_view fact) const { fail_at(base_ + position_, fact); }
  void skip_space();
  void expect(char c);
  void open(char c);
  bool another(char close, bool first);
  bool take(std::string_view word);
  size_t string_bytes() const;
  char32_t escaped_unit();
  void append_escape(std::string& out);
  std::string_view number_text();

  std::string_view text_;
  std::string name_;
  size_t base_;
  size_t position_ = 0;
  int depth_ = 0;
};

/// `text`, which is UTF-8, as a JSON string with its quotes.
std::string json_quote(std::string_view text);

/// The shortest number that reads back as `value`; null for NaN and the infinities, which JSON cannot write.
std::string json_number(double value);

}  // namespace reprise::io
