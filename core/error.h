// Errors: `Error` for what a caller can react to, `Bug` for a broken invariant inside Reprise.
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprise {

/// Bad input or a failed resource: the caller can react. The message gives the op, the fact and the values.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken invariant: a defect in Reprise, never the caller's fault.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A string stream that writes the same under every locale: none groups its digits or moves its point.
/// Without memory it throws std::bad_alloc, where others end the text early without a word.
class TextStream : public std::ostringstream {
 public:
  TextStream() {
    imbue(std::locale::classic());
    exceptions(std::ios::badbit);
  }
};

namespace detail {
template <class... Parts>
std::string join(const Parts&... parts) {
  TextStream out;
  (out << ... << parts);
  return out.str();
}
}  // namespace detail

/// Throws Error with the joined parts: `fail("load: no such file: ", path)`.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  throw Error(detail::join(parts...));
}

/// Throws Error unless `ok`: `check(a == b, "matmul: inner sizes differ: ", a, " and ", b)`.
template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

/// Throws Bug unless `ok`. For facts that only a defect in Reprise can break.
template <class... Parts>
void invariant(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw Bug(detail::join(parts...));
}

}  // namespace reprise
