// Listing: what an error has to list, a line each. A long list ends after its first lines with a count of the
// rest.
#pragma once

#include "reprise/core/error.h"

namespace reprise {

class Listing {
 public:
  /// A line of the joined parts: `list.add("missing: ", name, ' ', shape)`.
  template <class... Parts>
  void add(const Parts&... parts) {
    if (count_++ < most_lines) text_ += "\n  " + detail::join(parts...);
  }

  bool empty() const { return count_ == 0; }
  /// Each line after a line break; empty if there are none.
  std::string str() const {
    return count_ <= most_lines ? text_ : text_ + detail::join("\n  and ", count_ - most_lines, " more");
  }

 private:
  static constexpr size_t most_lines = 20;
  std::string text_;
  size_t count_ = 0;
};

}  // namespace reprise
