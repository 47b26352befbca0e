// Sizes in bytes as people write them.
#include "reprise/apps/common/sizes.h"

#include <charconv>

#include "reprise/core/error.h"

namespace reprise::apps {

size_t parse_bytes(std::string_view text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  constexpr Unit units[] = {{"", 1},
                            {"B", 1},
                            {"kB", 1e3},
                            {"KB", 1e3},
                            {"MB", 1e6},
                            {"GB", 1e9},
                            {"TB", 1e12},
                            {"KiB", 1024},
                            {"MiB", 1024 * 1024.},
                            {"GiB", 1024 * 1024 * 1024.},
                            {"TiB", 1024 * 1024 * 1024 * 1024.}};
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(size_t(end - text.data()));
  for (const Unit& known : units)
    if (error == std::errc() && unit == known.name && number * known.bytes >= 1 &&
        number * known.bytes < 1e18)
      return size_t(number * known.bytes);
  fail("size: '", text, "' is not a number of bytes such as 512MiB or 2GiB");
}

}  // namespace reprise::apps
