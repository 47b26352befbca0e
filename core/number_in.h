// Numbers in text, read and written alike under every locale.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

/// All of `text` as a number in decimal; nothing if it is anything else or out of range.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// The shortest decimal that reads back as `value`.
inline std::string shortest(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace reprise
