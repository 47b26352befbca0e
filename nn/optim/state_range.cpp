#include "reprise/nn/optim/state_range.h"

#include "reprise/core/number_in.h"

namespace reprise::optim {
namespace {

constexpr std::string_view shape_suffix = ":shape";

}  // namespace

std::string range_name(const StateRange& range) { return range.state + ":" + std::to_string(range.begin); }

std::optional<StateRange> range_in(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return {};
  const auto begin = number_in<int64_t>(name.substr(colon + 1));
  if (!begin || *begin < 0) return {};
  return StateRange{std::string(name.substr(0, colon)), *begin};
}

std::string shape_name(const std::string& state) { return state + std::string(shape_suffix); }

std::optional<std::string> shaped_state_in(std::string_view name) {
  if (!name.ends_with(shape_suffix)) return {};
  return std::string(name.substr(0, name.size() - shape_suffix.size()));
}

}  // namespace reprise::optim
