#include "reprise/nn/optim/named_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include "reprise/core/number_in.h"
#include "reprise/nn/optim/state_range.h"

namespace reprise::optim {
namespace {

constexpr const char* updates_name = "updates";

/// The names of one optimizer's parameters, by place, and what its state begins with.
struct Part {
  std::string prefix;
  std::vector<std::string> names;
};

// Without those of which not all parameters have a name.
std::vector<Part> parts_of(Optimizer& optimizer, const nn::NamedTensors& parameters) {
  std::vector<Part> parts;
  for (const auto& [prefix, own] : optimizer.parts()) {
    Part part{prefix, {}};
    bool all = true;
    for (const ParameterGroup* group : own->all_groups())
      for (const Tensor& parameter : group->parameters) {
        const auto found = std::find_if(parameters.begin(), parameters.end(),
                                        [&](const auto& entry) { return entry.second.is_same(parameter); });
        all = all && found != parameters.end();
        if (all) part.names.push_back(found->first);
      }
    if (all) parts.push_back(std::move(part));
  }
  return parts;
}

// The state that some of its elements, or its sizes, are named by.
std::string whole_of(const std::string& name) {
  if (const auto range = range_in(name)) return range->state;
  return shaped_state_in(name).value_or(name);
}

}  // namespace

nn::NamedTensors state_by_name(const nn::NamedTensors& state, Optimizer& optimizer,
                               const nn::NamedTensors& parameters) {
  nn::NamedTensors named;
  const std::vector<Part> parts = parts_of(optimizer, parameters);
  for (const auto& [name, tensor] : state) {
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&, &own = name](const Part& p) { return own.starts_with(p.prefix); });
    const std::string rest = part == parts.end() ? name : name.substr(part->prefix.size());
    const size_t dot = rest.find('.');
    const auto place = number_in<uint64_t>(rest.substr(0, dot));
    if (part != parts.end() && rest == updates_name && tensor.numel() == int64_t(part->names.size())) {
      for (size_t i = 0; i < part->names.size(); ++i)
        named.emplace_back(part->names[i] + ":" + updates_name,
                           tensor.slice(0, int64_t(i), int64_t(i) + 1).clone());
    } else if (part != parts.end() && dot != std::string::npos && place && *place < part->names.size()) {
      named.emplace_back(part->names[*place] + ":" + rest.substr(dot + 1), tensor);
    } else {
      named.emplace_back(name, tensor);
    }
  }
  return named;
}

nn::NamedTensors state_by_place(const nn::NamedTensors& state, Optimizer& optimizer,
                                const nn::NamedTensors& parameters) {
  const std::vector<Part> parts = parts_of(optimizer, parameters);
  std::map<std::string, std::pair<size_t, size_t>> places;  // part and place of a parameter
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t i = 0; i < parts[p].names.size(); ++i) places[parts[p].names[i]] = {p, i};
  nn::NamedTensors by_place;
  std::vector<std::map<size_t, int64_t>> updates(parts.size());
  for (const auto& [name, tensor] : state) {
    const size_t colon = whole_of(name).rfind(':');
    if (colon == std::string::npos) {
      by_place.emplace_back(name, tensor);
      continue;
    }
    const auto found = places.find(name.substr(0, colon));
    check(found != places.end(), "optimizer: state ", name, " is of none of its parameters");
    const auto [part, place] = found->second;
    if (name.substr(colon + 1) != updates_name) {
      by_place.emplace_back(parts[part].prefix + std::to_string(place) + "." + name.substr(colon + 1),
                            tensor);
      continue;
    }
    check(tensor.defined() && tensor.dtype() == DType::i64 && tensor.numel() == 1, "optimizer: state ", name,
          " is not one number of i64");
    updates[part][place] = tensor.reshape({1}).to_vector<int64_t>()[0];
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    if (updates[p].empty()) continue;
    check(updates[p].size() == parts[p].names.size(), "optimizer: the state has the number of updates of ",
          updates[p].size(), " parameters, there are ", parts[p].names.size());
    std::vector<int64_t> counts;
    for (const auto& [place, count] : updates[p]) counts.push_back(count);
    by_place.emplace_back(parts[p].prefix + updates_name, Tensor::from(counts, {int64_t(counts.size())}));
  }
  return by_place;
}

}  // namespace reprise::optim
