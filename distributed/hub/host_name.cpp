#include "reprise/distributed/hub/host_name.h"

#include <unistd.h>

#include <array>
#include <string_view>

namespace reprise::distributed {

std::string host_name() {
  std::array<char, longest_host + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string shown_host(const std::string& name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  constexpr size_t longest_shown = 64;
  std::string shown = name.substr(0, longest_shown);
  for (char& c : shown)
    if (plain.find(c) == std::string_view::npos) c = '?';
  return name.size() > longest_shown ? shown + "..." : shown;
}

}  // namespace reprise::distributed
