// Sizes of memory in text, read as people write them and written in MiB and GiB, alike under every locale.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise {

/// "512MiB", "2GiB", "1.5GB", "1000000"; nothing if it is anything else, less than a byte or beyond 10^18.
inline std::optional<size_t> bytes_in(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit units[] = {{"", 1},         {"B", 1},        {"kB", 1e3},    {"KB", 1e3},
                            {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10},
                            {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(size_t(end - text.data()));
  for (const Unit& known : units)
    if (error == std::errc() && unit == known.name && number * known.bytes >= 1 &&
        number * known.bytes < 1e18)
      return size_t(number * known.bytes);
  return std::nullopt;
}

/// `bytes_in`, and an Error where that is nothing.
inline size_t parse_bytes(std::string_view text) {
  const std::optional<size_t> bytes = bytes_in(text);
  check(bytes.has_value(), "size: '", text, "' is not a number of bytes such as 512MiB or 2GiB");
  return *bytes;
}

/// With one decimal, or as many as show two digits of what is small: "12.3", "0.45", "0.0076"; with
/// nine decimals at most, so that "0.0" is 0 alone.
inline std::string two_digits(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  int decimals = 1;
  for (double least = 1; size > 0 && size < least && decimals < 9; least /= 10) ++decimals;
  char text[400];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals).ptr};
}

/// As `two_digits`, without a unit: for tables whose head names it.
inline std::string in_mib(auto bytes) { return two_digits(double(bytes) / 0x1p20); }

/// "12.3 MiB", "0.0076 MiB"; from 1 GiB on "1.25 GiB".
inline std::string format_bytes(auto bytes) {
  if (double(bytes) < 0x1p30) return in_mib(bytes) + " MiB";
  char text[400];
  char* end =
      std::to_chars(text, text + sizeof text, double(bytes) / 0x1p30, std::chars_format::fixed, 2).ptr;
  return std::string(text, end) + " GiB";
}

}  // namespace reprise
