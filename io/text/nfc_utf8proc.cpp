// Normal form C by utf8proc.
#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "reprise/core/error.h"
#include "reprise/io/text/nfc.h"

namespace reprise::io {

bool has_nfc() { return true; }

std::string to_nfc(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), utf8proc_ssize_t(text.size()),
                   &made, utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  check(bytes >= 0, "nfc: ", utf8proc_errmsg(bytes));
  return std::string(reinterpret_cast<const char*>(made), size_t(bytes));
}

}  // namespace reprise::io
