// Normal form C by utf8proc.
#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "reprise/core/error.h"
#include "reprise/io/text/nfc.h"

namespace reprise::io {

namespace {

// utf8proc sorts marks that follow each other in quadratic time; no language has nearly so many.
void check_marks(std::string_view text) {
  constexpr int64_t most = 1000;
  int64_t marks = 0;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                        utf8proc_ssize_t(text.size() - at), &character);
    check(bytes > 0, "nfc: no UTF-8 at byte ", at);
    marks = utf8proc_get_property(character)->combining_class == 0 ? 0 : marks + 1;
    check(marks <= most, "nfc: more than ", most, " combining marks in a row at byte ", at);
    at += size_t(bytes);
  }
}

}  // namespace

bool has_nfc() { return true; }

std::string to_nfc(std::string_view text) {
  check_marks(text);
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), utf8proc_ssize_t(text.size()),
                   &made, utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  check(bytes >= 0, "nfc: ", utf8proc_errmsg(bytes));
  return std::string(reinterpret_cast<const char*>(made), size_t(bytes));
}

}  // namespace reprise::io
